// Compiled with the access hooks and linked with the runtime. Every test is a process of its own:
// a process simulates once.
#include "platform/runtime/background.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platform/runtime/testing/in_process.h"

namespace perdure::platform {
namespace {

SimulationOptions options_with(unsigned threads, unsigned background,
                               Carrier carrier = Carrier::fibers) {
  SimulationOptions options = options_for(threads, carrier);
  options.background_threads = background;
  return options;
}

/// Adds up what it is handed, slowly, on a thread of its own.
struct Adder {
  Line handed;
  Line added;
  std::vector<std::uint64_t> table = std::vector<std::uint64_t>(1 << 16);
  pm::BackgroundThread thread;

  [[nodiscard]] bool start() {
    return thread.start([this] {
      for (std::uint64_t n = handed.word.exchange(0); n != 0; --n) {
        for (std::size_t i = 0; i < 512; ++i) ++table[(n * 7919 + i * 97) % table.size()];
        added.word.fetch_add(1);
      }
      return false;
    });
  }
  void hand(std::uint64_t n) {
    handed.word.fetch_add(n);
    thread.wake();
  }
};

TEST(Background, ServesBesideTheOthersAndEndsTheRunWithNothingLeft) {
  for (const Carrier carrier : {Carrier::fibers, Carrier::threads})
    for (const auto model : {Simulation::Model::on, Simulation::Model::off})
      in_process([=] {
        Simulation& simulation = start(options_with(3, 1, carrier));
        simulation.set_model(model);
        Adder adder;
        ASSERT_TRUE(adder.start());
        for (std::uint64_t run = 1; run <= 3; ++run) {
          simulation.run([&](unsigned) {
            for (int i = 0; i < 20; ++i) adder.hand(1);
          });
          EXPECT_EQ(adder.added.word.load(), run * 60);
          EXPECT_EQ(adder.handed.word.load(), 0U);
        }
        adder.thread.stop();
        EXPECT_TRUE(simulation.check().ok());
      });
}

// The thread that wakes it pays for a system call, and not for the work.
TEST(Background, TakesNoTimeOfTheThreadThatWakesIt) {
  in_process([] {
    Simulation& simulation = start(options_with(1, 1));
    Adder adder;
    ASSERT_TRUE(adder.start());
    Time waking = 0;
    Time whole = 0;
    simulation.run([&](unsigned) {
      const Time begin = simulation.now();
      adder.hand(100);
      waking = simulation.now() - begin;
      while (adder.added.word.load() != 100) pm::pause();
      whole = simulation.now() - begin;
    });
    EXPECT_LT(waking, 2 * us);
    EXPECT_GT(whole, 20 * waking);
  });
}

TEST(Background, WhatItDoesIsNoTimeOfTheOthers) {
  in_process([] {
    Simulation& simulation = start(options_with(1, 1));
    Adder adder;
    ASSERT_TRUE(adder.start());
    simulation.run([&](unsigned) { adder.hand(1000); });
    const TimeSplit split = simulation.time_split();
    const Time all = split.compute + split.l1 + split.l2 + split.llc + split.memory_queueing +
                     split.media + split.flush_fence + split.aborted_transactions;
    EXPECT_LT(all, 10 * us);
    EXPECT_EQ(all + split.lock_wait, simulation.end_of_jobs());
    EXPECT_GT(simulation.now(), simulation.end_of_jobs() + 100 * us);
    EXPECT_GT(simulation.hooked_accesses(), 1000U * 512);
    adder.thread.stop();
  });
}

TEST(Background, StopsWithinARunAfterAllIsServed) {
  in_process([] {
    Simulation& simulation = start(options_with(2, 1));
    std::optional<Adder> adder(std::in_place);
    ASSERT_TRUE(adder->start());
    simulation.run([&](unsigned thread) {
      if (thread != 0) return;
      adder->hand(10);
      adder->thread.stop();
      EXPECT_EQ(adder->added.word.load(), 10U);
      adder.emplace();
      EXPECT_TRUE(adder->start());  // B2
      adder->hand(3);
    });
    simulation.run([](unsigned) {});
    EXPECT_EQ(adder->added.word.load(), 3U);
    // Outside of a run, by whoever stops it.
    adder->hand(2);
    adder->thread.stop();
    EXPECT_EQ(adder->added.word.load(), 5U);
  });
}

TEST(Background, IsCalledAgainAMillisecondLater) {
  for (const auto model : {Simulation::Model::on, Simulation::Model::off})
    in_process([=] {
      Simulation& simulation = start(options_with(1, 1));
      simulation.set_model(model);
      std::vector<Time> calls;
      pm::BackgroundThread thread;
      ASSERT_TRUE(thread.start([&] {
        calls.push_back(simulation.now());
        return calls.size() < 4;
      }));
      Line counted;
      simulation.run([&](unsigned) {
        thread.wake();
        while (counted.word.fetch_add(1) < 3'000'000 && calls.size() < 4) pm::pause();
      });
      ASSERT_EQ(calls.size(), 4U);
      for (std::size_t i = 1; model == Simulation::Model::on && i < calls.size(); ++i)
        EXPECT_NEAR(static_cast<double>(calls[i] - calls[i - 1]), 1e9, 1e8) << i;
      // What it still wants is kept for the next run, and holds up none.
      simulation.run([](unsigned) {});
      thread.stop();
    });
}

TEST(Background, IsRefusedWhereNoThreadIsFree) {
  in_process([] {
    Simulation& simulation = start(options_with(1, 1));
    Adder first;
    Adder second;
    EXPECT_TRUE(first.start());
    EXPECT_FALSE(second.start());
    EXPECT_FALSE(second.thread.runs());
    first.thread.stop();
    EXPECT_TRUE(second.start());
    simulation.run([&](unsigned) { second.hand(4); });
    EXPECT_EQ(second.added.word.load(), 4U);
    second.thread.stop();
  });
  in_process([] {
    SimulationOptions options = options_for(1);
    options.threads = options.platform.cpus();
    options.background_threads = 1;
    static_cast<void>(start(options));
    Adder adder;
    EXPECT_FALSE(adder.start());
  });
}

TEST(Background, TakesTheSameTimeInEachProcess) {
  std::vector<std::string> seen;
  for (int process = 0; process < 2; ++process) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    in_process([&] {
      Simulation& simulation = start(options_with(4, 2));
      Adder adders[2];
      for (Adder& adder : adders) ASSERT_TRUE(adder.start());
      simulation.run([&](unsigned thread) {
        for (unsigned i = 0; i < 50; ++i) adders[(thread + i) % 2].hand(1 + i % 3);
      });
      const std::string line =
          std::to_string(simulation.now()) + " " + std::to_string(simulation.hooked_accesses());
      EXPECT_EQ(write(pipe_ends[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
    });
    char text[80] = {};
    ASSERT_GT(read(pipe_ends[0], text, sizeof text - 1), 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    seen.emplace_back(text);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

}  // namespace
}  // namespace perdure::platform
