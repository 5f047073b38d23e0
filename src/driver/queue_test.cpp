// A run of a queue from its opening to its result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "driver/bench.h"
#include "driver/run_record.h"
#include "driver/test_fake_queue.h"

namespace perdure::driver {
namespace {

using testing::config_for_queue;
using testing::FakeQueue;
using ::testing::HasSubstr;
using testing::PoolQueue;
using workload::Operation;

Result<BenchResult> measured(const BenchConfig& config) {
  Progress quiet(true);
  return run_bench(config, quiet);
}

TEST(QueueBench, CountsAreExactAndRetriesAreNoOperations) {
  BenchConfig config = config_for_queue<FakeQueue>();
  config.queue->producers = 3;
  config.threads = 5;
  config.verify = true;
  const auto result = measured(config);
  ASSERT_TRUE(result.ok()) << result.error().line();
  ASSERT_EQ(result->repetitions.size(), 2U);
  for (const RepetitionResult& repetition : result->repetitions) {
    for (const Operation operation : {Operation::push, Operation::pop}) {
      EXPECT_EQ(repetition.tally.attempted[operation], 10'000U);
      EXPECT_EQ((*repetition.tally.latency_ns)[operation].total(), 10'000U);
    }
    EXPECT_EQ(repetition.tally.attempted.total(), 20'000U);
    EXPECT_EQ(repetition.tally.failed.total(), 0U);
    std::uint64_t in_timeline = 0;
    for (const TimelinePoint& point : repetition.timeline) in_timeline += point.operations;
    EXPECT_EQ(in_timeline, 20'000U);
  }
  EXPECT_EQ(result->verification->wrong, 0U);
  EXPECT_GE(result->verification->checked, 20'000U);
  EXPECT_FALSE(result->broken_invariant);
}

TEST(QueueBench, AFullQueueMakesProducersTryAgain) {
  class SlowPops : public FakeQueue {
   public:
    using FakeQueue::FakeQueue;
    Outcome pop(std::string& payload) override {
      usleep(100);
      return FakeQueue::pop(payload);
    }
  };
  BenchConfig config = config_for_queue<SlowPops>();
  config.workload.limit_operations(500);
  const auto result = measured(config);
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->repetitions[0].tally.retried[Operation::push], 0U);
  EXPECT_EQ(result->repetitions[0].tally.attempted[Operation::push], 500U);
  const auto record = record_of(config, *result, std::nullopt);
  const auto& push = record["repetitions"][0]["operations"]["push"];
  EXPECT_EQ(push["retries"], result->repetitions[0].tally.retried[Operation::push]);
  EXPECT_EQ(push["attempted"], 500);
  EXPECT_TRUE(record["configuration"]["workload"].is_null());
  EXPECT_EQ(record["configuration"]["queue"]["producers"], 2);
}

TEST(QueueBench, LatencyIsThatOfTheCallThatSucceeded) {
  static constexpr useconds_t pause_us = 2000;
  class SlowEmpty : public FakeQueue {  // only to say that it is empty takes long
   public:
    using FakeQueue::FakeQueue;
    Outcome pop(std::string& payload) override {
      const Outcome outcome = FakeQueue::pop(payload);
      if (outcome == Outcome::not_found) usleep(pause_us);
      return outcome;
    }
    Outcome push(std::string_view payload) override {
      usleep(20);
      return FakeQueue::push(payload);
    }
    using FakeQueue::push;
  };
  BenchConfig config = config_for_queue<SlowEmpty>();
  config.workload.limit_operations(300);
  config.repetitions = 1;
  const auto result = measured(config);
  ASSERT_TRUE(result.ok());
  const Tally& tally = result->repetitions[0].tally;
  ASSERT_GT(tally.retried[Operation::pop], 0U);
  EXPECT_LT((*tally.latency_ns)[Operation::pop].quantile(0.5), pause_us * 500ULL);
}

TEST(QueueBench, ProducersAndConsumersThinkBetweenOperations) {
  constexpr std::uint64_t think_ns = 200'000;
  for (const Latency latency : {Latency::off, Latency::every}) {
    BenchConfig config = config_for_queue<FakeQueue>();
    config.queue->producers = 2;
    config.queue->consumers = 1;
    config.threads = 3;
    config.repetitions = 1;
    config.latency = latency;
    config.workload.limit_operations(400);
    config.workload.think_ns = think_ns;
    config.verify = true;
    const auto result = measured(config);
    ASSERT_TRUE(result.ok()) << result.error().line();
    const RepetitionResult& repetition = result->repetitions[0];
    EXPECT_EQ(repetition.tally.attempted.total(), 800U);
    EXPECT_GE(repetition.seconds, 399 * think_ns / 1e9) << "the consumer has 400 operations";
    EXPECT_EQ(record_of(config, *result, std::nullopt)["configuration"]["queue"]["think_ns"],
              think_ns);
    if (latency == Latency::off) continue;
    for (const Operation operation : {Operation::push, Operation::pop})
      EXPECT_LT((*repetition.tally.latency_ns)[operation].quantile(0.5), think_ns);
  }
}

TEST(QueueBench, AStoppedPhaseLeavesNobodyInsideABlockingQueue) {
  for (const auto& [producers, consumers] : {std::pair{3U, 1U}, {1U, 3U}, {2U, 2U}}) {
    BenchConfig config = config_for_queue<testing::WaitingQueue>();
    config.queue->producers = producers;
    config.queue->consumers = consumers;
    config.workload.limit_seconds(0.02);
    config.warmup_seconds = 0.01;
    config.repetitions = 3;
    config.verify = true;
    const auto result = measured(config);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->verification->wrong, 0U);
    EXPECT_FALSE(result->broken_invariant);
  }
}

TEST(QueueBench, RepetitionsBeginAtThePrefill) {
  static std::atomic<std::uint64_t> most{0};
  class Watched : public FakeQueue {
   public:
    using FakeQueue::FakeQueue;
    using FakeQueue::push;
    Outcome push(std::string_view payload) override {
      const Outcome outcome = FakeQueue::push(payload);
      most = std::max(most.load(), size());
      return outcome;
    }
  };
  most = 0;
  BenchConfig config = config_for_queue<Watched>();
  config.queue->prefill = 40;
  config.queue->consumers = 0;
  config.threads = 2;
  config.workload.limit_operations(20);
  config.repetitions = 4;  // without levelling the second would find no room
  config.verify = true;
  const auto result = measured(config);
  ASSERT_TRUE(result.ok()) << result.error().line();
  EXPECT_EQ(result->load.records, 40U);
  EXPECT_EQ(most, 60U);
  EXPECT_EQ(result->repetitions[3].tally.attempted[Operation::push], 20U);
  EXPECT_EQ(result->verification->wrong, 0U);
}

TEST(QueueBench, RefusesWhatTheQueueDoesNotTake) {
  BenchConfig long_payload = config_for_queue<FakeQueue>();
  long_payload.queue->payload_bytes = 5000;
  EXPECT_THAT(measured(long_payload).error().line(), HasSubstr("--payload 5000"));
  BenchConfig much = config_for_queue<FakeQueue>();
  much.queue->prefill = 65;
  EXPECT_THAT(measured(much).error().line(), HasSubstr("--prefill 65"));
  BenchConfig endless = config_for_queue<FakeQueue>();
  endless.queue->consumers = 0;
  endless.threads = 2;
  endless.workload.limit_operations(65);
  EXPECT_THAT(measured(endless).error().line(), HasSubstr("--operations 65"));
}

TEST(QueueBench, AReusedPoolGivesBackItsPayloadsAndNumbersGoOn) {
  QueueInfo info;
  info.name = "pooled";
  info.index_class = IndexClass::persistent;
  info.create = PoolQueue::create;
  info.recover = PoolQueue::recover;
  BenchConfig config = config_for_queue(info);
  config.index.heaps = {HeapKind::slab};
  config.pool_path =
      std::filesystem::temp_directory_path() / ("perdure_queue" + std::to_string(getpid()));
  config.pool_bytes = Pool::min_pool_bytes;
  config.workload.limit_operations(500);
  config.queue->prefill = 30;
  config.verify = config.check = true;
  const auto made = measured(config);
  ASSERT_TRUE(made.ok()) << made.error().line();
  EXPECT_EQ(made->verification->wrong, 0U);
  config.reuse = true;
  for (int i = 0; i < 2; ++i) {
    const auto reused = measured(config);
    ASSERT_TRUE(reused.ok()) << reused.error().line();
    EXPECT_EQ(reused->recovery->records, 30U);
    EXPECT_TRUE(reused->recovery->clean.value());
    EXPECT_EQ(reused->load.records, 0U);
    // Numbers that began anew would be popped after larger ones.
    EXPECT_EQ(reused->verification->wrong, 0U)
        << ::testing::PrintToString(reused->verification->examples);
    EXPECT_FALSE(reused->broken_invariant);
  }
  std::filesystem::remove(config.pool_path);
}

/// What goes wrong with every hundredth call.
template <int fault>
class Faulty : public FakeQueue {
 public:
  using FakeQueue::FakeQueue;
  using FakeQueue::push;
  Outcome push(std::string_view payload) override {
    const bool now = ++pushes_ % 100 == 0;
    if (now && fault == 0) return Outcome::ok;  // lost
    std::string changed(payload);
    if (now && fault == 1) changed[changed.size() / 2] ^= 1;  // damaged
    if (now && fault == 2) changed.pop_back();                // shortened
    return FakeQueue::push(changed);
  }
  Outcome pop(std::string& payload) override {
    const std::uint64_t number = ++pops_;
    if (number % 100 == 0 && fault == 3) {  // the newest first
      const std::scoped_lock lock(mutex_);
      if (payloads_.size() > 3)
        std::rotate(payloads_.rbegin(), payloads_.rbegin() + 1, payloads_.rend());
    }
    const Outcome outcome = FakeQueue::pop(payload);
    if (outcome != Outcome::ok || fault != 4) return outcome;
    const std::scoped_lock lock(mutex_);  // once more what was popped, in place of the next
    if (number % 100 == 0 && !payloads_.empty()) payloads_.front() = payload;
    return outcome;
  }

 private:
  std::atomic<std::uint64_t> pushes_{0};
  std::atomic<std::uint64_t> pops_{0};
};

template <int fault>
workload::Verifier::Summary verified() {
  BenchConfig config = config_for_queue<Faulty<fault>>();
  config.verify = true;
  const auto result = measured(config);
  EXPECT_TRUE(result.ok());
  return result->verification.value();
}

TEST(QueueBench, VerificationFindsEveryFault) {
  EXPECT_GT(verified<0>().wrong, 0U) << "a lost payload";
  EXPECT_GT(verified<1>().wrong, 0U) << "a damaged payload";
  EXPECT_GT(verified<2>().wrong, 0U) << "a shortened payload";
  EXPECT_GT(verified<3>().wrong, 0U) << "the order";
  EXPECT_GT(verified<4>().wrong, 0U) << "a payload popped twice, another never";
  EXPECT_EQ(verified<5>().wrong, 0U) << "no fault";
}

TEST(QueueBench, ALostPayloadIsAnErrorWithoutVerificationToo) {
  const auto result = measured(config_for_queue<Faulty<0>>());
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->broken_invariant);
  EXPECT_THAT(result->broken_invariant->line(), HasSubstr("pushed and not popped"));
}

TEST(QueueBench, ALieAboutEmptinessIsFound) {
  class Shy : public FakeQueue {
   public:
    using FakeQueue::FakeQueue;
    Outcome pop(std::string& payload) override {
      if (size() > 8 && ++calls_ % 10 == 0) return Outcome::not_found;
      return FakeQueue::pop(payload);
    }

   private:
    std::atomic<unsigned> calls_{0};
  };
  BenchConfig config = config_for_queue<Shy>();
  config.queue->prefill = 50;  // so that the queue is never near empty
  config.verify = true;
  const auto result = measured(config);
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->verification->wrong, 0U);
  EXPECT_THAT(result->verification->examples, ::testing::Contains(HasSubstr("found empty")));
}

}  // namespace
}  // namespace perdure::driver
