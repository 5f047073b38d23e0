#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "lockfree/base/queue_registry.h"

namespace perdure {
namespace {

std::unique_ptr<DurableQueue> queue_of(std::uint64_t slots) {
  QueuePlace place;
  place.options.set("slots", slots);
  return std::move(create_queue(**QueueRegistry::find("queue:mutex"), place).value());
}

TEST(MutexQueue, HandsOutPayloadsInTheirOrder) {
  const auto queue = queue_of(4);
  for (const char* const payload : {"a", "", "ccc"}) EXPECT_EQ(queue->push(payload), Outcome::ok);
  std::string got;
  for (const char* const payload : {"a", "", "ccc"}) {
    ASSERT_EQ(queue->pop(got), Outcome::ok);
    EXPECT_EQ(got, payload);
  }
  EXPECT_TRUE(queue->check_invariants());
}

TEST(MutexQueue, SaysWhenItIsFullOrEmptyOrAPayloadIsTooLong) {
  const auto queue = queue_of(2);
  std::string got = "untouched";
  EXPECT_EQ(queue->pop(got), Outcome::not_found);
  EXPECT_EQ(got, "untouched");
  EXPECT_EQ(queue->push("1"), Outcome::ok);
  EXPECT_EQ(queue->push("2"), Outcome::ok);
  EXPECT_EQ(queue->push("3"), Outcome::out_of_space);
  EXPECT_EQ(queue->size(), queue->capacity());
  EXPECT_EQ(queue->push(std::string(queue->payload_bytes() + 1, 'x')), Outcome::invalid);
}

TEST(MutexQueue, LosesNothingBetweenThreads) {
  constexpr std::uint64_t each = 2000;
  const auto queue = queue_of(16);
  std::array<std::vector<std::string>, 2> got;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t n = 0; n < each;)
        if (queue->push(std::to_string(t * each + n)) == Outcome::ok) ++n;
    });
    threads.emplace_back([&, t] {
      for (std::string payload; got[t].size() < each;)
        if (queue->pop(payload) == Outcome::ok) got[t].push_back(payload);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<bool> seen(2 * each, false);
  for (const auto& payloads : got) {
    std::array<std::int64_t, 2> last{-1, -1};
    for (const std::string& payload : payloads) {
      const auto number = std::stoll(payload);
      EXPECT_FALSE(seen[static_cast<std::size_t>(number)]) << payload;
      seen[static_cast<std::size_t>(number)] = true;
      std::int64_t& before = last[number >= static_cast<std::int64_t>(each) ? 1 : 0];
      EXPECT_GT(number, before);
      before = number;
    }
  }
  EXPECT_EQ(queue->size(), 0U);
}

}  // namespace
}  // namespace perdure
