// The clock that budgets are measured by.
#pragma once

#include <chrono>

namespace perdure::crash {

[[nodiscard]] inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace perdure::crash
