#include "platform/runtime/observer.h"

#include <algorithm>
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

bool Observer::is_told_within(std::uintptr_t at, std::size_t bytes) noexcept {
  constexpr std::size_t line_bytes = 64;
  const std::uint64_t* const told = hooked_.told_bytes;
  const std::uintptr_t end = at + std::min(bytes, hooked_.window.bytes - at);
  return std::any_of(told + at / line_bytes, told + (end + line_bytes - 1) / line_bytes,
                     [](std::uint64_t bytes_of_line) { return bytes_of_line != 0; });
}

}  // namespace perdure::platform
