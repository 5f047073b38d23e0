#include "platform/runtime/observer.h"

#include <utility>

namespace perdure::platform {

constinit Observer* Observer::installed_ = nullptr;
constinit Observer::Hooked Observer::hooked_;
bool Observer::offers_transactions = false;

void Observer::watch(const Window& window) noexcept {
  window_ = window;
  if (installed_ == this) hooked_.window = window;
}

Observer* Observer::install(Observer* observer) noexcept {
  hooked_ = {.window = observer == nullptr ? Window{} : observer->window_};
  return std::exchange(installed_, observer);
}

}  // namespace perdure::platform
