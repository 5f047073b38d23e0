// BackgroundThread: a thread that a structure keeps beside those that call it. It sleeps until it
// is woken, serves, and sleeps again.
//
// Under simulation it is one of the simulation's own, on a core of its own
// (SimulationOptions::background_threads): it serves while the others run, and a run ends when it
// has nothing left to do. Where none is free, and in the crash explorer, whose threads are those of
// its program, `start` refuses, and those that call the structure do the work themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace perdure::pm {

class BackgroundThread {
 public:
  /// Does what there is to do; true: it wants to be called again in a millisecond, though nobody
  /// wakes it.
  using Serve = std::function<bool()>;

  BackgroundThread() = default;
  ~BackgroundThread() { stop(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// False: there is no thread for it, and `serve` is never called.
  [[nodiscard]] bool start(Serve serve);
  [[nodiscard]] bool runs() const noexcept { return running_; }
  /// What was written before is seen by the call of `serve` that follows.
  void wake() noexcept;
  /// Returns when it has served all that it was woken for and has ended. Meanwhile only what it
  /// serves may wake it.
  void stop();

  // For whoever runs it.

  /// True, once, if it was woken since the last call.
  [[nodiscard]] bool take_wake_up() noexcept {
    return woken_.exchange(0, std::memory_order_acq_rel) != 0;
  }
  [[nodiscard]] bool serve() { return serve_(); }
  [[nodiscard]] bool is_stopping() const noexcept {
    return stopping_.load(std::memory_order_acquire);
  }

 private:
#ifndef PERDURE_SIM
  void loop();
  std::thread thread_;
#endif
  Serve serve_;
  bool running_ = false;
  std::atomic<std::uint32_t> woken_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace perdure::pm
