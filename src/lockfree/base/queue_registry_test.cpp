#include "lockfree/base/queue_registry.h"

#include <gtest/gtest.h>

namespace perdure {
namespace {

QueueInfo counted_queue() {
  return {.name = "test_queue",
          .mode = "plain",
          .title = "for this test",
          .index_class = IndexClass::persistent,
          .options = {{"slots", "payloads it can hold", 1024, 2, 4096}},
          .create = [](const QueuePlace& place) -> MadeQueue {
            return Error{ErrorCode::failed, std::to_string(place.options.get("slots")), "", ""};
          }};
}
PERDURE_REGISTER_QUEUE(test_queue, counted_queue());

const QueueInfo& registered() { return **QueueRegistry::find("test_queue:plain"); }

TEST(QueueRegistry, FindsAQueueByItsFullNameAndSuggestsTheNearest) {
  ASSERT_TRUE(QueueRegistry::find("test_queue:plain"));
  const auto missing = QueueRegistry::find("test_queue:plane");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::usage);
  EXPECT_NE(missing.error().remedy.find("test_queue:plain"), std::string::npos);
}

TEST(QueueRegistry, RefusesOptionsThatAQueueDoesNotHave) {
  const std::vector<std::string> unknown{"slot=12"};
  EXPECT_FALSE(QueueRegistry::options(registered(), unknown));
  const std::vector<std::string> too_many{"slots=5000"};
  EXPECT_FALSE(QueueRegistry::options(registered(), too_many));
  const std::vector<std::string> right{"slots=12"};
  EXPECT_EQ(QueueRegistry::options(registered(), right)->get("slots"), 12U);
}

TEST(QueueRegistry, FillsInDefaultsAndAsksForThePool) {
  EXPECT_EQ(create_queue(registered(), {}).error().code, ErrorCode::usage);
  PoolOptions options;
  options.heap = HeapKind::dram;
  options.bytes = Pool::min_pool_bytes;
  auto pool = Pool::create(options);
  ASSERT_TRUE(pool);
  const auto made = create_queue(registered(), {.pool = pool->get()});
  EXPECT_EQ(made.error().what, "1024");
}

TEST(QueueRegistry, SaysWhatRecoversNothing) {
  EXPECT_EQ(recover_queue(registered(), {}).error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace perdure
