#include "driver/rounds.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace perdure::driver {
namespace {

using std::chrono::milliseconds;

// R1: 3 rounds with 20 ms of filling and 5 ms of running each.
TEST(Rounds, FillingIsNotCounted) {
  Rounds rounds(1, Clock::get());
  int left = 3;
  const auto begin = std::chrono::steady_clock::now();
  rounds.work(
      0, true,
      [&] {
        std::this_thread::sleep_for(milliseconds(20));
        return true;
      },
      [&](Ticks, Ticks) {
        std::this_thread::sleep_for(milliseconds(5));
        --left;
      },
      [&] { return left != 0; });
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const double active = Clock::get().to_seconds(rounds.active());
  EXPECT_GE(active, 0.015);
  EXPECT_LE(active, wall.count() - 0.055);
}

// R2: the fast thread's empty block ends the round; the slow thread keeps what it has not run.
TEST(Rounds, AThreadOutOfStepsEndsTheRoundForAll) {
  Rounds rounds(2, Clock::get());
  WorkerTeam team(2, WorkerTeam::Carrier::threads, {});
  std::atomic<bool> fast_filled_twice{false};
  std::atomic<int> slow_rounds{0};
  int fast_blocks = 2;
  bool slow_done = false;
  team.run([&](unsigned thread) {
    if (thread == 0)
      rounds.work(
          0, true,
          [&] {
            if (fast_blocks == 1) fast_filled_twice = true;
            return fast_blocks > 0;
          },
          [&](Ticks, Ticks) { --fast_blocks; }, [&] { return fast_blocks > 0; });
    else
      rounds.work(
          1, true, [] { return true; },
          [&](Ticks, Ticks) {
            ++slow_rounds;
            if (fast_filled_twice) {
              slow_done = true;
              return;
            }
            while (!rounds.round_over()) std::this_thread::yield();  // hangs if nobody ends it
          },
          [&] { return !slow_done; });
  });
  EXPECT_GE(slow_rounds.load(), 2);
}

TEST(Rounds, StopEndsThePhaseEvenBetweenRounds) {
  Rounds rounds(1, Clock::get());
  std::vector<bool> over_at_start;
  rounds.work(
      0, true,
      [&] {
        if (over_at_start.size() == 1) rounds.stop();
        return true;
      },
      [&](Ticks, Ticks) { over_at_start.push_back(rounds.round_over()); }, [] { return true; });
  EXPECT_EQ(over_at_start, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace perdure::driver
