#include "lockfree/optunlinkedq/optunlinkedq.h"

#include <gtest/gtest.h>

#include "index/common/index_root.h"
#include "lockfree/slots/test_queue.h"

namespace perdure::lockfree {
namespace {

using lockfree_test::expect_content;
using lockfree_test::holds;
using lockfree_test::options_of;
using lockfree_test::TestQueue;

constexpr const char* name = "optunlinkedq";

TEST(OptUnlinkedQ, AgreesWithAModelThroughPowerCuts) {
  for (const pm::Durability durability : {pm::Durability::eadr, pm::Durability::adr}) {
    pm::configure(durability);
    for (const auto& [slots, bytes] : {std::pair{1U, 40U}, {2U, 0U}, {5U, 41U}, {64U, 700U}}) {
      SCOPED_TRACE(slots);
      TestQueue queue(name, options_of(slots, bytes));
      ASSERT_NO_FATAL_FAILURE(lockfree_test::agree_with_a_model(queue, 1500));
    }
  }
}

TEST(OptUnlinkedQ, LosesAndDoublesNothingBetweenThreads) {
  for (const unsigned slots : {1U, 3U, 100U}) {
    TestQueue queue(name, options_of(slots, 300));
    ASSERT_NO_FATAL_FAILURE(lockfree_test::move_between_threads(*queue, 3, 2, 1500, false));
    ASSERT_TRUE(holds(queue.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {}));
  }
}

/// Chunk `number` of the image.
std::byte* chunk_of(const TestQueue& queue, std::size_t number) {
  std::byte* const memory = queue.span().data();
  IndexRoot root{};
  std::memcpy(&root, memory + queue.pool().roots().front().offset, sizeof root);
  std::uint64_t at = 0;
  std::memcpy(&at, memory + root.head + sizeof(Directory) + 8 * number, sizeof at);
  return memory + at;
}

// U2, U3: a push that is not durable leaves a hole, and one durable mark covers the pops before it.
TEST(OptUnlinkedQ, RecoversAroundHolesAndBehindTheLargestMark) {
  TestQueue queue(name, options_of(8, 40));
  for (const char* const payload : {"a", "b", "c", "d", "e"})
    ASSERT_EQ(queue->push(payload), Outcome::ok);
  auto* const headers = reinterpret_cast<SlotHeader*>(chunk_of(queue, 1));
  for (unsigned i = 0; i < 9; ++i)
    if (headers[i].seq.load() == 4) headers[i].seq.store(unfinished);
  reinterpret_cast<Mark*>(chunk_of(queue, 0))[100].seq.store(2);
  ASSERT_TRUE(holds(queue.crash()));
  ASSERT_EQ(queue->push("f"), Outcome::ok);
  ASSERT_TRUE(holds(queue.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_content(*queue, {"c", "e", "f"}));
}

TEST(OptUnlinkedQ, RefusesDamageAndOtherOptions) {
  TestQueue queue(name, options_of(4, 40));
  for (const char* const payload : {"a", "b", "c", "d"})
    ASSERT_EQ(queue->push(payload), Outcome::ok);
  queue.place().options.set("slots", 5);
  const Result<void> other = queue.crash();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::foreign);
  EXPECT_NE(other.error().what.find("slots=4"), std::string::npos);
  TestQueue full(name, options_of(4, 40));
  auto* const headers = reinterpret_cast<SlotHeader*>(chunk_of(full, 1));
  for (unsigned i = 0; i < 5; ++i) headers[i].seq.store(i + 1);
  const Result<void> damaged = full.crash();
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace perdure::lockfree
