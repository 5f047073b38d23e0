#include "pm/background_thread.h"

#include <chrono>
#include <utility>

#include "pm/instructions.h"

namespace perdure::pm {

bool BackgroundThread::start(Serve serve) {
  serve_ = std::move(serve);
  stopping_.store(false, std::memory_order_relaxed);
#ifdef PERDURE_SIM
  running_ = detail::instruction::start_background(*this);
#else
  thread_ = std::thread([this] { loop(); });
  running_ = true;
#endif
  return running_;
}

void BackgroundThread::wake() noexcept {
  if (woken_.exchange(1, std::memory_order_acq_rel) != 0) return;
#ifdef PERDURE_SIM
  detail::instruction::wake_background(*this);
#else
  woken_.notify_one();
#endif
}

void BackgroundThread::stop() {
  if (!running_) return;
  stopping_.store(true, std::memory_order_release);
  wake();
#ifdef PERDURE_SIM
  detail::instruction::stop_background(*this);
#else
  thread_.join();
#endif
  running_ = false;
}

#ifndef PERDURE_SIM
void BackgroundThread::loop() {
  constexpr std::chrono::milliseconds soon(1);
  for (bool again = false; !is_stopping() || woken_.load(std::memory_order_acquire) != 0;) {
    if (!again)
      woken_.wait(0, std::memory_order_acquire);
    else if (woken_.load(std::memory_order_relaxed) == 0)
      std::this_thread::sleep_for(soon);
    static_cast<void>(take_wake_up());
    again = serve();
  }
}
#endif

}  // namespace perdure::pm
