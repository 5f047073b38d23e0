// For tests of the runtime. Every test is a process of its own: a process simulates once.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "platform/runtime/simulation.h"
#include "pm/pm.h"

namespace perdure::platform {

inline SimulationOptions options_for(unsigned threads, Carrier carrier = Carrier::fibers) {
  SimulationOptions options;
  options.threads = threads;
  options.carrier = carrier;
  return options;
}

inline Simulation& start(const SimulationOptions& options) {
  auto simulation = Simulation::start(options);
  EXPECT_TRUE(simulation.ok());
  pm::configure(pm::Durability::adr);
  return **simulation;
}

// Runs `body` in a child process; its value is the child's exit code.
template <class Body>
void in_process(Body body) {
  EXPECT_EXIT(
      {
        body();
        std::fflush(nullptr);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

struct alignas(64) Line {
  std::atomic<std::uint64_t> word{0};
};

}  // namespace perdure::platform
