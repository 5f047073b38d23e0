// What it costs to sleep until another thread says so. Assumed, not measured on the servers
// modelled.
#pragma once

#include "platform/model/time.h"

namespace perdure::platform::runtime {

/// A futex call that sleeps or wakes.
constexpr Time system_call_time = 600 * ns;
/// How long a woken thread takes to run on its idle core.
constexpr Time wake_up_time = 2500 * ns;

}  // namespace perdure::platform::runtime
