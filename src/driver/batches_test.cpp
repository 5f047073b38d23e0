#include <gtest/gtest.h>

#include <atomic>
#include <span>

#include "driver/bench.h"
#include "driver/test_fake_index.h"
#include "workload/mix.h"

namespace perdure::driver {
namespace {

using testing::config_for;
using testing::FakeIndex;
using workload::Operation;

Result<BenchResult> run_batches(const BenchConfig& config) {
  Progress quiet(true);
  return run_bench(config, quiet);
}

class Batching : public FakeIndex {
 public:
  void lookup_batch(std::span<const std::uint64_t> keys, std::span<std::uint64_t> values,
                    std::span<Outcome> outcomes) override {
    note(keys.size());
    FakeIndex::lookup_batch(keys, values, outcomes);
  }
  void insert_batch(std::span<const std::uint64_t> keys, std::span<const std::uint64_t> values,
                    std::span<Outcome> outcomes) override {
    note(keys.size());
    FakeIndex::insert_batch(keys, values, outcomes);
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    ++updates;
    return FakeIndex::update(key, value);
  }
  static void reset() { calls = operations = updates = 0; }
  static inline std::atomic<std::uint64_t> calls, operations, updates;

 private:
  static void note(std::size_t size) {
    EXPECT_LE(size, 32U);
    ++calls;
    operations += size;
  }
};

TEST(BenchBatches, HandsOverBatchesAndTimesEachAsOne) {
  for (const Latency latency : {Latency::off, Latency::sampled, Latency::every})
    for (const bool verify : {false, true}) {
      Batching::reset();
      BenchConfig config = config_for<Batching>();
      config.workload.mix = workload::parse_mix("lookup=0.5,insert=0.25,update=0.25").value();
      config.workload.batch = 32;
      config.workload.limit_operations(40'000);
      config.threads = 2;
      config.repetitions = 1;
      config.latency = latency;
      config.latency_interval = 64;
      config.verify = verify;
      const auto result = run_batches(config);
      ASSERT_TRUE(result.ok()) << result.error().line();
      const Tally& tally = result->repetitions[0].tally;
      EXPECT_EQ(tally.attempted[Operation::lookup], 20'000U);
      EXPECT_EQ(tally.attempted[Operation::insert], 10'000U);
      EXPECT_EQ(tally.failed.total(), 0U);
      EXPECT_EQ(Batching::operations, 30'000U);
      EXPECT_EQ(Batching::updates, 10'000U) << "by the default, one after the other";
      EXPECT_LT(Batching::calls, 30'000 / 32 * 11 / 10) << "nearly all are full";
      if (verify) {
        EXPECT_EQ(result->verification->wrong, 0U);
      }
      if (latency == Latency::off) continue;
      const std::uint64_t samples = (*tally.latency_ns)[Operation::lookup].total();
      if (latency == Latency::every)
        EXPECT_NEAR(static_cast<double>(samples), 625, 60);
      else
        EXPECT_NEAR(static_cast<double>(samples), 250, 80);
    }
}

TEST(BenchBatches, ABatchThatAnswersWronglyIsFound) {
  class LastForgotten : public FakeIndex {
   public:
    void update_batch(std::span<const std::uint64_t> keys, std::span<const std::uint64_t> values,
                      std::span<Outcome> outcomes) override {
      FakeIndex::update_batch(keys.first(keys.size() - 1), values, outcomes);
      outcomes.back() = Outcome::ok;
    }
  };
  BenchConfig config = config_for<LastForgotten>();
  config.workload.mix = workload::parse_mix("lookup=0.5,update=0.5").value();
  config.workload.batch = 8;
  config.verify = true;
  const auto result = run_batches(config);
  ASSERT_TRUE(result.ok()) << result.error().line();
  EXPECT_GT(result->verification->wrong, 100U);
}

}  // namespace
}  // namespace perdure::driver
