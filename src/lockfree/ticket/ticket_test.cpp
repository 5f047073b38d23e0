#include "lockfree/ticket/ticket.h"

#include <gtest/gtest.h>

#include "index/common/index_root.h"
#include "lockfree/slots/test_queue.h"

namespace perdure::lockfree {
namespace {

using lockfree_test::expect_content;
using lockfree_test::holds;
using lockfree_test::options_of;
using lockfree_test::TestQueue;

constexpr const char* name = "ring:ticket";

TEST(TicketRing, AgreesWithAModelThroughPowerCuts) {
  for (const pm::Durability durability : {pm::Durability::eadr, pm::Durability::adr}) {
    pm::configure(durability);
    for (const auto& [slots, bytes] : {std::pair{1U, 40U}, {5U, 41U}, {64U, 700U}}) {
      SCOPED_TRACE(slots);
      TestQueue queue(name, options_of(slots, bytes));
      ASSERT_NO_FATAL_FAILURE(lockfree_test::agree_with_a_model(queue, 1500));
    }
  }
}

TEST(TicketRing, LosesAndDoublesNothingBetweenThreads) {
  for (const unsigned slots : {1U, 3U, 100U}) {
    TestQueue queue(name, options_of(slots, 300));
    ASSERT_NO_FATAL_FAILURE(lockfree_test::move_between_threads(*queue, 2, 2, 1000, false));
  }
}

/// The headers of the image.
SlotHeader* headers_of(const TestQueue& queue) {
  std::byte* const memory = queue.span().data();
  IndexRoot root{};
  std::memcpy(&root, memory + queue.pool().roots().front().offset, sizeof root);
  std::uint64_t at = 0;
  std::memcpy(&at, memory + root.head + sizeof(Directory) + 8, sizeof at);
  return reinterpret_cast<SlotHeader*>(memory + at);
}

// K1: a push that was cut off leaves a hole, which pops pass by.
TEST(TicketRing, PassesHolesBy) {
  TestQueue queue(name, options_of(4, 40));
  std::string payload;
  for (const char* const text : {"x", "a", "b", "c", "d"}) {
    if (queue->size() == 4) {
      ASSERT_EQ(queue->pop(payload), Outcome::ok);
    }
    ASSERT_EQ(queue->push(text), Outcome::ok);
  }
  SlotHeader& cut = headers_of(queue)[2];
  ASSERT_EQ(cut.seq.load(), 3U);
  cut.seq.store(unfinished);
  ASSERT_TRUE(holds(queue.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {"a", "c", "d"}));
  ASSERT_EQ(queue->push("e"), Outcome::ok);
  ASSERT_TRUE(holds(queue.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {"e"}));
}

TEST(TicketRing, RefusesSeqsThatNoTicketCouldGive) {
  for (const std::uint64_t seq : {2U, 5U, 900U, 901U}) {
    TestQueue queue(name, options_of(4, 40));
    ASSERT_EQ(queue->push("a"), Outcome::ok);
    headers_of(queue)[0].seq.store(seq);
    const Result<void> result = queue.crash();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::corrupt);
  }
}

}  // namespace
}  // namespace perdure::lockfree
