#include "pm/background_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace perdure::pm {
namespace {

TEST(BackgroundThread, ServesAllThatItWasWokenFor) {
  constexpr std::uint64_t wake_ups = 20'000;
  std::uint64_t asked = 0;  // plain: `wake` and `serve` must order it
  std::atomic<std::uint64_t> seen{0};
  BackgroundThread thread;
  ASSERT_TRUE(thread.start([&] {
    seen.store(asked, std::memory_order_release);
    return false;
  }));
  for (std::uint64_t i = 1; i <= wake_ups; ++i) {
    asked = i;
    thread.wake();
    while (seen.load(std::memory_order_acquire) != i) std::this_thread::yield();
  }
  thread.stop();
  EXPECT_FALSE(thread.runs());
}

TEST(BackgroundThread, ServesBeforeItStops) {
  for (int round = 0; round < 200; ++round) {
    int served = 0;
    BackgroundThread thread;
    ASSERT_TRUE(thread.start([&] {
      if (++served < 3) thread.wake();  // finds more to do
      return false;
    }));
    thread.wake();
    thread.stop();
    EXPECT_GE(served, 3);
  }
}

TEST(BackgroundThread, IsCalledAgainWithoutBeingWoken) {
  std::atomic<int> served{0};
  BackgroundThread thread;
  ASSERT_TRUE(thread.start([&] { return served.fetch_add(1) < 5; }));
  thread.wake();
  while (served.load() < 6) std::this_thread::yield();
  thread.stop();
  thread.stop();  // does nothing
}

TEST(BackgroundThread, StartsAgain) {
  std::atomic<int> served{0};
  BackgroundThread thread;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(thread.start([&] { return served.fetch_add(1), false; }));
    thread.wake();
    thread.stop();
    EXPECT_GT(served.load(), round);
  }
}

}  // namespace
}  // namespace perdure::pm
