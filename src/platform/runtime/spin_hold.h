// SpinHold: a lock for the runtime itself, which intercepts the usual ones.
#pragma once

#include <atomic>

namespace perdure::platform::runtime {

class SpinHold {
 public:
  explicit SpinHold(std::atomic_flag& flag) noexcept : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) __builtin_ia32_pause();
  }
  ~SpinHold() { flag_.clear(std::memory_order_release); }
  SpinHold(const SpinHold&) = delete;
  SpinHold& operator=(const SpinHold&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace perdure::platform::runtime
