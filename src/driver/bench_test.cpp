#include "driver/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "driver/test_fake_index.h"
#include "workload/mix.h"

namespace perdure::driver {
namespace {

using testing::config_for;
using testing::FakeIndex;
using ::testing::HasSubstr;
using workload::Operation;

Result<BenchResult> run(const BenchConfig& config) {
  Progress quiet(true);
  return run_bench(config, quiet);
}

workload::Mix mix(const char* text) { return workload::parse_mix(text).value(); }

std::string temporary(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("perdure_" + name + std::to_string(getpid()));
}

TEST(Bench, CountsAreExactPerRepetitionOverAllThreads) {
  BenchConfig config = config_for<FakeIndex>();
  config.threads = 3;
  config.workload.mix = mix("lookup=0.5,insert=0.2,update=0.1,lookup_negative=0.1,scan=0.1");
  const auto result = run(config);
  ASSERT_TRUE(result.ok()) << result.error().line();
  ASSERT_EQ(result->repetitions.size(), 2U);
  EXPECT_EQ(result->load.records, 10'000U);
  for (const RepetitionResult& repetition : result->repetitions) {
    EXPECT_EQ(repetition.tally.attempted[Operation::lookup], 10'000U);
    EXPECT_EQ(repetition.tally.attempted[Operation::insert], 4'000U);
    EXPECT_EQ(repetition.tally.attempted[Operation::update], 2'000U);
    EXPECT_EQ(repetition.tally.attempted[Operation::lookup_negative], 2'000U);
    EXPECT_EQ(repetition.tally.attempted[Operation::scan], 2'000U);
    EXPECT_EQ(repetition.tally.failed.total(), 0U);
    EXPECT_EQ((*repetition.tally.latency_ns)[Operation::insert].total(), 4'000U);
    EXPECT_GT(repetition.seconds, 0);
    std::uint64_t in_timeline = 0;
    for (const TimelinePoint& point : repetition.timeline) in_timeline += point.operations;
    EXPECT_EQ(in_timeline, 20'000U);
  }
}

TEST(Bench, MoreOperationsThanABlockHoldsAreStillExact) {
  BenchConfig config = config_for<FakeIndex>();
  config.threads = 2;
  config.repetitions = 1;
  config.workload.mix = mix("lookup=0.75,insert=0.25");
  config.workload.limit_operations(600'000);  // two threads, several fills each
  config.verify = true;
  const auto result = run(config);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->repetitions[0].tally.attempted[Operation::lookup], 450'000U);
  EXPECT_EQ(result->repetitions[0].tally.attempted[Operation::insert], 150'000U);
  EXPECT_EQ(result->repetitions[0].tally.failed.total(), 0U);
  EXPECT_EQ(result->verification->wrong, 0U);
}

TEST(Bench, ByteStringKeysAndBulkLoadGiveTheSameCounts) {
  BenchConfig config;
  const auto stdmap = IndexRegistry::find("stdmap");
  ASSERT_TRUE(stdmap.ok());
  config.index = **stdmap;
  config.workload.records = 5'000;
  config.workload.keys = workload::parse_keys("random:8-64").value();
  config.workload.value_bytes = 24;
  config.workload.mix = mix("lookup=0.4,upsert=0.2,remove=0.2,scan=0.2");
  config.workload.limit_operations(4'000);
  config.threads = 2;
  config.repetitions = 1;
  config.verify = true;
  config.bulk_load = true;
  const auto result = run(config);
  ASSERT_TRUE(result.ok()) << result.error().line();
  EXPECT_EQ(result->load.records, 5'000U);
  EXPECT_EQ(result->repetitions[0].tally.attempted.total(), 4'000U);
  EXPECT_EQ(result->verification->wrong, 0U)
      << (result->verification->examples.empty() ? "" : result->verification->examples[0]);
}

// Each thread fills and operates an index of its own, under every check.
TEST(Bench, ThreadsMayHaveAnIndexEach) {
  BenchConfig config = config_for<FakeIndex>();
  config.threads = 3;
  config.parallel = Parallel::saturated;
  config.workload.records = 1'000;
  config.workload.mix = mix("lookup=0.4,insert=0.2,remove=0.2,scan=0.2");
  config.workload.limit_operations(10'000);
  config.verify = true;
  for (const bool in_bulk : {false, true}) {
    config.bulk_load = in_bulk;
    const auto result = run(config);
    ASSERT_TRUE(result.ok()) << result.error().line();
    EXPECT_EQ(result->load.records, 3'000U);
    EXPECT_EQ(result->memory.records, 3'000U);
    EXPECT_EQ(result->repetitions[0].tally.attempted.total(), 10'000U);
    EXPECT_EQ(result->verification->wrong, 0U)
        << (result->verification->examples.empty() ? "" : result->verification->examples[0]);
  }
}

// In one pool, found again by their roots.
TEST(Bench, IndexesOfThreadsAreReused) {
  BenchConfig config;
  config.index = **IndexRegistry::find("fptree");
  config.options = *IndexRegistry::options(config.index, {});
  config.threads = 2;
  config.parallel = Parallel::saturated;
  config.pool_path = temporary("threads");
  config.pool_bytes = Pool::min_pool_bytes;
  config.workload.records = 1'000;
  config.workload.mix = mix("lookup=0.5,insert=0.5");
  config.workload.limit_operations(2'000);
  config.repetitions = 1;
  config.verify = config.check = true;
  for (const std::uint64_t recovered : {0U, 3'000U}) {
    config.reuse = recovered != 0;
    const auto result = run(config);
    ASSERT_TRUE(result.ok()) << result.error().line();
    if (config.reuse) {
      EXPECT_EQ(result->recovery->records, recovered);
    }
    EXPECT_EQ(result->repetitions[0].tally.failed.total(), 0U);
    EXPECT_EQ(result->verification->wrong, 0U);
  }
  std::filesystem::remove(config.pool_path);
}

class Forgetful : public FakeIndex {
 public:
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    return key % 2 == 0 ? Outcome::not_found : FakeIndex::lookup(key, value);
  }
};

TEST(Bench, FailedOperationsAreNotThroughput) {
  const auto result = run(config_for<Forgetful>());
  ASSERT_TRUE(result.ok());
  const Tally& tally = result->repetitions[0].tally;
  EXPECT_EQ(tally.attempted.total(), 20'000U);
  EXPECT_NEAR(static_cast<double>(tally.failed[Operation::lookup]), 10'000, 1'000);
  EXPECT_EQ(tally.refused, 0U);
}

class Full : public FakeIndex {
 public:
  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    return size() < 10'500 ? FakeIndex::insert(key, value) : Outcome::out_of_space;
  }
};

TEST(Bench, InAKeyRangePresentAndAbsentAreAnswersLikeAnyOther) {
  BenchConfig config = config_for<FakeIndex>();
  config.workload.records = 500;
  config.workload.key_range = 1000;
  config.workload.mix = mix("lookup=0.5,insert=0.25,remove=0.25");
  config.workload.limit_operations(20'000);
  config.verify = true;
  config.threads = 2;
  const auto result = run(config);
  ASSERT_TRUE(result.ok()) << result.error().line();
  EXPECT_EQ(result->verification->wrong, 0U);
  EXPECT_GE(result->verification->checked, 40'000U);
  for (const RepetitionResult& repetition : result->repetitions) {
    EXPECT_EQ(repetition.tally.attempted[Operation::remove], 5'000U);
    EXPECT_EQ(repetition.tally.failed.total(), 0U);
  }
}

TEST(Bench, ThreadsThinkBetweenOperationsAndOutsideOfTheirLatency) {
  constexpr std::uint64_t think_ns = 200'000;
  for (const Latency latency : {Latency::off, Latency::sampled, Latency::every})
    for (const bool verify : {false, true}) {
      BenchConfig config = config_for<FakeIndex>();
      config.workload.mix = mix("lookup=1");
      config.workload.limit_operations(400);
      config.workload.think_ns = think_ns;
      config.threads = 2;
      config.repetitions = 1;
      config.latency = latency;
      config.latency_interval = 4;
      config.verify = verify;
      const auto result = run(config);
      ASSERT_TRUE(result.ok()) << result.error().line();
      const RepetitionResult& repetition = result->repetitions[0];
      EXPECT_EQ(repetition.tally.attempted[Operation::lookup], 400U);
      EXPECT_GE(repetition.seconds, 200 * think_ns / 1e9) << "each thread has 200 operations";
      if (latency == Latency::off) continue;
      EXPECT_LT((*repetition.tally.latency_ns)[Operation::lookup].quantile(0.5), think_ns);
    }
}

TEST(Bench, AThinkingThreadIsNotWaitedForWhenTheRunEnds) {
  BenchConfig config = config_for<FakeIndex>();
  config.workload.mix = mix("lookup=1");
  config.workload.limit_seconds(0.2);
  config.workload.think_ns = workload::longest_think_ns;
  config.repetitions = 1;
  const auto result = run(config);
  ASSERT_TRUE(result.ok()) << result.error().line();
  EXPECT_LT(result->repetitions[0].seconds, 0.9);
  EXPECT_EQ(result->repetitions[0].tally.attempted[Operation::lookup], config.threads);
}

TEST(Bench, TheOperationsHaveTheSharesInSteps) {
  BenchConfig config = config_for<FakeIndex>();
  config.workload.mix = mix("lookup=0.9,insert=0.05,upsert=0.05");
  config.workload.mix_steps = 256;
  config.workload.limit_operations(25'600);
  config.threads = 2;
  config.repetitions = 1;
  const auto result = run(config);
  ASSERT_TRUE(result.ok()) << result.error().line();
  const Tally& tally = result->repetitions[0].tally;
  EXPECT_EQ(tally.attempted[Operation::insert], 1'200U);
  EXPECT_EQ(tally.attempted[Operation::upsert], 1'200U);
  EXPECT_EQ(tally.attempted[Operation::lookup], 23'200U);
}

TEST(Bench, RefusedInsertsAreFailuresWithAWarning) {
  BenchConfig config = config_for<Full>();
  config.workload.mix = mix("insert=1");
  config.repetitions = 1;
  const auto result = run(config);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->repetitions[0].tally.failed[Operation::insert], 19'500U);
  EXPECT_EQ(result->repetitions[0].tally.refused, 19'500U);
  EXPECT_THAT(result->warnings, ::testing::Contains(HasSubstr("no room in the pool")));
}

TEST(Bench, ALoadThatFindsNoRoomNamesASizeThatWouldDo) {
  BenchConfig config = config_for<Full>();
  config.workload.records = 20'000;
  const auto without_pool = run(config);
  ASSERT_FALSE(without_pool.ok());
  EXPECT_THAT(without_pool.error().line(), HasSubstr("no more memory after 10500 of 20000"));
  config.index.index_class = IndexClass::persistent;
  config.heap = HeapKind::dram;
  config.pool_bytes = Pool::min_pool_bytes;
  const auto result = run(config);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::out_of_space);
  EXPECT_THAT(result.error().line(), HasSubstr("full after 10500 of 20000 records"));
  EXPECT_THAT(result.error().line(), HasSubstr("--pool-bytes"));
}

class Stale : public FakeIndex {
 public:
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    return key % 1000 == 0 ? FakeIndex::lookup(key, value) : FakeIndex::update(key, value);
  }
};

class ShortScans : public FakeIndex {
 public:
  std::size_t scan(std::uint64_t from, std::size_t count, IntegerScan& out) override {
    return FakeIndex::scan(from, count > 1 && count < 1000 ? count - 1 : count, out);
  }
};

class LosesOne : public FakeIndex {
 public:
  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    const Outcome outcome = FakeIndex::insert(key, value);
    if (size() == 12'345) FakeIndex::remove(key);
    return outcome;
  }
};

TEST(Bench, VerificationCatchesALyingUpdate) {
  BenchConfig config = config_for<Stale>();
  config.workload.mix = mix("lookup=0.5,update=0.5");
  config.workload.limit_operations(100'000);
  config.verify = true;
  const auto lying = run(config);
  ASSERT_TRUE(lying.ok());
  EXPECT_GT(lying->verification->wrong, 0U);
  EXPECT_FALSE(lying->verification->examples.empty());
  config.index = config_for<FakeIndex>().index;
  EXPECT_EQ(run(config)->verification->wrong, 0U);
}

TEST(Bench, VerificationCatchesShortScans) {
  BenchConfig config = config_for<ShortScans>();
  config.workload.mix = mix("scan=1");
  config.workload.limit_operations(100);
  config.verify = true;
  EXPECT_GT(run(config)->verification->wrong, 0U);
}

TEST(Bench, VerificationFindsARecordThatNobodyLookedUp) {
  BenchConfig config = config_for<LosesOne>();
  config.workload.mix = mix("insert=1");
  config.workload.limit_operations(5'000);
  config.repetitions = 1;
  config.verify = true;
  EXPECT_GT(run(config)->verification->wrong, 0U);
}

class Broken : public FakeIndex {
 public:
  Result<void> check_invariants() const override {
    return Error{ErrorCode::corrupt, "L1 does not hold", "leaf 7", ""};
  }
};

TEST(Bench, ABrokenInvariantFailsTheRunOnlyWithCheck) {
  BenchConfig config = config_for<Broken>();
  EXPECT_FALSE(run(config)->broken_invariant.has_value());
  config.check = true;
  const auto result = run(config);
  ASSERT_TRUE(result.ok());  // the figures are there all the same
  EXPECT_FALSE(result->repetitions.empty());
  ASSERT_TRUE(result->broken_invariant.has_value());
  EXPECT_EQ(result->broken_invariant->code, ErrorCode::failed);
  EXPECT_THAT(result->broken_invariant->line(), HasSubstr("L1"));
}

// Stalls once for 50 ms in the middle of a run, as a garbage collection or a page fault would.
class Stalls : public FakeIndex {
 public:
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    if (++lookups_ == 500) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return FakeIndex::lookup(key, value);
  }

 private:
  int lookups_ = 0;
};

TEST(Bench, OpenLoopLatencyIncludesQueueingBehindAStall) {
  BenchConfig config = config_for<Stalls>();
  config.rate_ops_s = 10'000;
  config.workload.limit_operations(2'000);
  config.repetitions = 1;
  const auto open = run(config);
  ASSERT_TRUE(open.ok());
  const Tally& tally = open->repetitions[0].tally;
  EXPECT_EQ(tally.attempted.total(), 2'000U);
  // 50 ms at 10000/s queue 500 operations behind the stall: a quarter of the run waits, half of
  // them longer than 25 ms. A closed loop would see one slow operation.
  const Histogram& latency = (*tally.latency_ns)[Operation::lookup];
  EXPECT_GT(latency.quantile(0.9), 20'000'000U);
  EXPECT_GE(latency.max(), 50'000'000U);
  EXPECT_EQ((*tally.service_ns)[Operation::lookup].total(), 2'000U);
  EXPECT_LT((*tally.service_ns)[Operation::lookup].quantile(0.5), 1'000'000U);
  EXPECT_GE(open->repetitions[0].seconds, 0.19);
}

class Slow : public FakeIndex {
 public:
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FakeIndex::lookup(key, value);
  }
};

TEST(Bench, AnOpenLoopThatCannotKeepUpSkipsNothingAndWarns) {
  BenchConfig config = config_for<Slow>();
  config.rate_ops_s = 100'000;
  config.arrivals = Arrivals::poisson;
  config.workload.limit_operations(200);
  config.repetitions = 1;
  const auto result = run(config);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->repetitions[0].tally.attempted.total(), 200U);
  EXPECT_GT((*result->repetitions[0].tally.latency_ns)[Operation::lookup].quantile(0.99),
            100'000'000U);
  EXPECT_THAT(result->warnings, ::testing::Contains(HasSubstr("backlog")));
}

TEST(Bench, ALimitInSecondsEndsTheRepetition) {
  BenchConfig config = config_for<Slow>();
  config.workload.limit_seconds(0.1);
  config.threads = 2;
  config.repetitions = 1;
  const auto result = run(config);
  ASSERT_TRUE(result.ok());
  EXPECT_GE(result->repetitions[0].seconds, 0.1);
  EXPECT_LT(result->repetitions[0].seconds, 1.0);  // generous: the machine may be busy
  EXPECT_GT(result->repetitions[0].tally.attempted.total(), 10U);
  EXPECT_LT(result->repetitions[0].tally.attempted.total(), 2'000U);
}

TEST(Bench, InsertsStayFreshAfterWarmUpAndAStopByTheClock) {
  BenchConfig config = config_for<FakeIndex>();
  config.threads = 2;
  config.workload.mix = mix("insert=0.5,lookup=0.5");
  config.workload.limit_seconds(0.05);
  config.warmup_seconds = 0.05;
  config.repetitions = 3;
  config.verify = true;
  const auto result = run(config);
  ASSERT_TRUE(result.ok());
  for (const RepetitionResult& repetition : result->repetitions)
    EXPECT_EQ(repetition.tally.failed.total(), 0U);
  EXPECT_EQ(result->verification->wrong, 0U);
}

// Which operations are timed decides nothing else: the same operations run, in the same order.
TEST(Bench, SamplingRunsTheOperationsThatTimingAllOfThemDoes) {
  const auto run_with = [](Latency latency, bool verify) {
    BenchConfig config = config_for<FakeIndex>();
    config.workload.mix = mix("insert=0.3,lookup=0.4,remove=0.3");
    config.workload.limit_operations(300'000);  // several blocks of prepared steps
    config.threads = 2;
    config.verify = verify;
    config.latency = latency;
    config.latency_interval = 64;
    auto result = run(config);
    EXPECT_TRUE(result.ok());
    return std::move(result).value();
  };
  for (const bool verify : {false, true}) {
    const BenchResult every = run_with(Latency::every, verify);
    const BenchResult sampled = run_with(Latency::sampled, verify);
    const Tally& all = every.repetitions[0].tally;
    const Tally& some = sampled.repetitions[0].tally;
    EXPECT_EQ(some.attempted.of, all.attempted.of);
    EXPECT_EQ(some.attempted.total(), 300'000U);
    const auto timed = [](const Tally& tally) {
      std::uint64_t sum = 0;
      for (const Histogram& histogram : tally.latency_ns->of) sum += histogram.total();
      return sum;
    };
    EXPECT_EQ(timed(all), 300'000U);
    EXPECT_NEAR(static_cast<double>(timed(some)), 300'000.0 / 64, 600);
    if (verify) {
      EXPECT_EQ(sampled.verification->wrong, 0U);
    }
  }
}

TEST(Bench, HistogramsCanBeSwitchedOff) {
  BenchConfig config = config_for<FakeIndex>();
  config.latency = Latency::off;
  const auto result = run(config);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->repetitions[0].tally.latency_ns, nullptr);
  EXPECT_EQ(result->repetitions[0].tally.attempted.total(), 20'000U);
}

class PoolBench : public ::testing::Test {
 protected:
  PoolBench() {
    const auto fptree = IndexRegistry::find("fptree");
    if (!fptree.ok()) return;
    config_.index = **fptree;
    config_.options = IndexRegistry::options(config_.index, {}).value();
    config_.pool_path = temporary("bench_test.pool");
    config_.workload.records = 20'000;
    config_.workload.mix = mix("lookup=0.5,insert=0.3,remove=0.2");
    config_.workload.limit_operations(10'000);
    config_.repetitions = 1;
    config_.threads = 2;
    config_.verify = true;
    config_.check = true;
  }
  ~PoolBench() override { std::filesystem::remove(config_.pool_path); }

  BenchConfig config_;
};

TEST_F(PoolBench, AReusedPoolIsRecoveredAndItsKeysStayKnown) {
  const auto first = run(config_);
  ASSERT_TRUE(first.ok()) << first.error().line();
  EXPECT_EQ(first->verification->wrong, 0U);
  EXPECT_GT(first->memory.pm_bytes, 20'000U * 16);
  config_.reuse = true;
  const auto second = run(config_);
  ASSERT_TRUE(second.ok()) << second.error().line();
  ASSERT_TRUE(second->recovery.has_value());
  EXPECT_EQ(second->recovery->records, 21'000U);  // 3000 inserted, 2000 removed
  EXPECT_EQ(second->recovery->clean, true);
  EXPECT_EQ(second->load.records, 0U);
  EXPECT_EQ(second->repetitions[0].tally.failed[Operation::insert], 0U);
  EXPECT_EQ(second->verification->wrong, 0U)
      << (second->verification->examples.empty() ? "" : second->verification->examples[0]);
}

TEST_F(PoolBench, AnExistingFileIsKeptUnlessForced) {
  std::ofstream(config_.pool_path) << "precious";
  const auto refused = run(config_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::exists);
  EXPECT_EQ(std::filesystem::file_size(config_.pool_path), 8U);
  config_.force = true;
  EXPECT_EQ(run(config_).error().code, ErrorCode::exists) << "perdure did not make it";
  EXPECT_EQ(std::filesystem::file_size(config_.pool_path), 8U);
  std::ofstream(config_.pool_path, std::ios::trunc).flush();
  EXPECT_TRUE(run(config_).ok());
  EXPECT_TRUE(run(config_).ok()) << "and a pool of its own";
}

TEST_F(PoolBench, AFailedLoadLeavesNoFile) {
  config_.pool_bytes = Pool::min_pool_bytes;
  config_.workload.records = 2'000'000;
  const auto result = run(config_);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::out_of_space);
  EXPECT_FALSE(std::filesystem::exists(config_.pool_path));
}

TEST_F(PoolBench, ThePoolOfAnotherSeedIsRefused) {
  ASSERT_TRUE(run(config_).ok());
  config_.reuse = true;
  config_.workload.seed = 99;
  const auto result = run(config_);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::bad_input);
  EXPECT_TRUE(std::filesystem::exists(config_.pool_path));
}

}  // namespace
}  // namespace perdure::driver
