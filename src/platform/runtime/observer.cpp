#include "platform/runtime/observer.h"

namespace perdure::platform {

Observer* Observer::installed = nullptr;
bool Observer::offers_transactions = false;

}  // namespace perdure::platform
