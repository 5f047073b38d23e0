#include "platform/runtime/background.h"

#include <algorithm>
#include <utility>

#include "platform/runtime/engine.h"
#include "platform/runtime/futex.h"
#include "platform/runtime/observer.h"
#include "pm/simulated_instructions.h"

namespace perdure::platform::runtime {

Background::Place* Background::place_of(const pm::BackgroundThread* service) noexcept {
  const auto found = std::ranges::find(places_, service, &Place::service);
  return found == places_.end() ? nullptr : &*found;
}

SimulatedThread& Background::thread_of(const Place& place) const noexcept {
  const auto number = static_cast<std::size_t>(&place - places_.data());
  return *engine.scheduler.threads()[engine.scheduler.foreground() + number];
}

void Background::run(SimulatedThread& thread) {
  Place& place = places_[thread.number - engine.scheduler.foreground()];
  place.serving = true;
  for (bool due = place.again; place.service != nullptr;) {
    if (place.service->take_wake_up() || std::exchange(due, false)) {
      if (engine.profiled) engine.profile.begin(thread);
      place.again = place.service->serve();
      if (engine.profiled) engine.profile.end(thread);
    } else if (place.service->is_stopping() || engine.scheduler.all_ended()) {
      break;
    } else {
      sleep(thread, place);
      due = place.again;
    }
  }
  place.serving = false;
}

void Background::sleep(SimulatedThread& thread, Place& place) {
  constexpr Time soon = 1000 * us;
  if (place.again && !engine.timed) return engine.scheduler.yield_untimed(thread);
  if (place.again && !std::exchange(place.has_alarm, true))
    engine.scheduler.at(thread.clock + soon, [&thread, &place, at = thread.clock + soon] {
      place.has_alarm = false;
      engine.scheduler.wake(thread, at);
    });
  engine.scheduler.sleep(thread);
}

bool Background::adopt(pm::BackgroundThread& service) noexcept {
  Place* const place = place_of(nullptr);
  if (place == nullptr) return false;
  *place = {.service = &service, .serving = place->serving, .has_alarm = place->has_alarm};
  return true;
}

void Background::wake(const pm::BackgroundThread& service) noexcept {
  SimulatedThread* const caller = current;
  const Place* const place = place_of(&service);
  if (caller == nullptr || place == nullptr || !thread_of(*place).asleep) return;
  engine.transactions.forbid(*caller, AbortCause::other);
  if (engine.timed) {
    engine.machine->wait_until(caller->number, caller->clock + system_call_time);
    engine.read_clock(*caller);
  }
  engine.scheduler.wake(thread_of(*place), caller->clock + wake_up_time);
  engine.order(*caller);
}

void Background::stop(pm::BackgroundThread& service) {
  Place* const place = place_of(&service);
  if (place == nullptr) return;
  if (current != nullptr && place->serving) {
    while (place->serving) pm::detail::instruction::yield();
  } else {
    while (service.take_wake_up()) static_cast<void>(service.serve());
  }
  place->service = nullptr;
  place->again = false;
}

}  // namespace perdure::platform::runtime

namespace perdure::pm::detail::instruction {

bool start_background(BackgroundThread& thread) noexcept {
  return platform::Observer::installed() == nullptr &&
         platform::runtime::engine.background.adopt(thread);
}

void wake_background(BackgroundThread& thread) noexcept {
  platform::runtime::engine.background.wake(thread);
}

void stop_background(BackgroundThread& thread) noexcept {
  platform::runtime::engine.background.stop(thread);
}

}  // namespace perdure::pm::detail::instruction
