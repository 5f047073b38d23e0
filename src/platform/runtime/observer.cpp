#include "platform/runtime/observer.h"

namespace perdure::platform {

Observer* Observer::installed = nullptr;

}  // namespace perdure::platform
