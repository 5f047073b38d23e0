#include <gtest/gtest.h>

#include "lockfree/slots/test_queue.h"

namespace perdure::lockfree {
namespace {

using lockfree_test::options_of;
using lockfree_test::TestQueue;

TEST(BoostQueue, AgreesWithAModel) {
  for (const auto& [slots, bytes] : {std::pair{1U, 40U}, {2U, 0U}, {5U, 41U}, {64U, 700U}}) {
    SCOPED_TRACE(slots);
    TestQueue queue("boostqueue", options_of(slots, bytes));
    ASSERT_NO_FATAL_FAILURE(lockfree_test::agree_with_a_model(queue, 1500));
  }
}

TEST(BoostQueue, HoldsAsManyAsItCan) {
  TestQueue queue("boostqueue", options_of(65534, 8));
  for (unsigned i = 0; i < 65534; ++i) ASSERT_EQ(queue->push("x"), Outcome::ok);
  EXPECT_EQ(queue->push("x"), Outcome::out_of_space);
  EXPECT_EQ(queue->size(), 65534U);
  const QueueInfo& info = **QueueRegistry::find("boostqueue");
  EXPECT_EQ(create_queue(info, {.options = options_of(65535, 8)}).error().code, ErrorCode::usage);
}

TEST(BoostQueue, LosesAndDoublesNothingBetweenThreads) {
  for (const unsigned slots : {1U, 3U, 100U}) {
    TestQueue queue("boostqueue", options_of(slots, 300));
    ASSERT_NO_FATAL_FAILURE(lockfree_test::move_between_threads(*queue, 2, 2, 1000, false));
  }
}

}  // namespace
}  // namespace perdure::lockfree
