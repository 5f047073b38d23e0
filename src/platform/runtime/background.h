// Background: threads that structures keep beside those that call them (pm/background_thread.h), as
// simulated threads of their own.
//
// B1  in each run such a thread serves when it is woken and sleeps else; a run ends when all others
//     have ended and it has served what it was woken for.
// B2  a structure that gets its thread in the middle of a run may be served from the next run on.
#pragma once

#include <vector>

#include "platform/runtime/simulated_thread.h"
#include "pm/background_thread.h"

namespace perdure::platform::runtime {

class Background {
 public:
  void start(unsigned threads) { places_.resize(threads); }

  /// The job of a background thread in a run.
  void run(SimulatedThread& thread);

  /// False: each thread has somebody to serve.
  [[nodiscard]] bool adopt(pm::BackgroundThread& service) noexcept;
  void wake(const pm::BackgroundThread& service) noexcept;
  void stop(pm::BackgroundThread& service);

 private:
  struct Place {
    pm::BackgroundThread* service = nullptr;
    bool serving = false;    ///< its thread is at work in this run
    bool again = false;      ///< `service` wants to be called without being woken
    bool has_alarm = false;  ///< an event will wake its thread
  };
  [[nodiscard]] Place* place_of(const pm::BackgroundThread* service) noexcept;
  [[nodiscard]] SimulatedThread& thread_of(const Place& place) const noexcept;
  void sleep(SimulatedThread& thread, Place& place);

  std::vector<Place> places_;
};

}  // namespace perdure::platform::runtime
