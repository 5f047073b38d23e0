#include "pm/thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace perdure::pm {
namespace {

TEST(ThreadSlot, StaysTheSameInAThread) {
  const std::size_t mine = thread_slot();
  EXPECT_LT(mine, max_threads);
  EXPECT_EQ(thread_slot(), mine);
}

TEST(ThreadSlot, LiveThreadsNeverShareOne) {
  constexpr std::size_t threads = 32;
  const std::size_t mine = thread_slot();
  std::vector<std::size_t> slots(threads);
  std::atomic<std::size_t> arrived{0};
  {
    std::vector<std::jthread> all;
    for (std::size_t t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        slots[t] = thread_slot();
        arrived.fetch_add(1);
        while (arrived.load() < threads) std::this_thread::yield();
      });
  }
  const std::set<std::size_t> distinct(slots.begin(), slots.end());
  EXPECT_EQ(distinct.size(), threads);
  EXPECT_FALSE(distinct.contains(mine));
}

TEST(ThreadSlot, IsGivenBackWhenTheThreadEnds) {
  static_cast<void>(thread_slot());
  std::set<std::size_t> seen;
  for (std::size_t i = 0; i < 3 * max_threads; ++i)
    std::thread([&] { seen.insert(thread_slot()); }).join();
  EXPECT_EQ(seen.size(), 1U);
}

}  // namespace
}  // namespace perdure::pm
