#include "driver/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/bench.h"
#include "driver/progress.h"
#include "driver/test_fake_index.h"

namespace perdure::driver {
namespace {

nlohmann::ordered_json record(BenchConfig config) {
  config.workload.mix = workload::parse_mix("lookup=0.5,insert=0.5").value();
  config.repetitions = 1;
  Progress quiet(true);
  const auto result = run_bench(config, quiet);
  EXPECT_TRUE(result.ok());
  return record_of(config, *result, read_environment());
}

std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

TEST(RunRecord, HoldsWhatTheContractNames) {
  const auto run = record(testing::config_for<testing::FakeIndex>());
  EXPECT_THAT(keys_of(run),
              ::testing::UnorderedElementsAre(
                  "schema", "index", "index_class", "target", "platform", "threads", "records",
                  "key_kind", "seed", "configuration", "build", "load", "recovery", "memory",
                  "repetitions", "verification", "environment", "warnings"));
  EXPECT_EQ(run["schema"], "perdure-run/1");
  EXPECT_TRUE(run["recovery"].is_null());
  EXPECT_TRUE(run["verification"].is_null());
  const auto& repetition = run["repetitions"][0];
  const auto& insert = repetition["operations"]["insert"];
  EXPECT_EQ(insert["attempted"], 10'000);
  EXPECT_EQ(insert["succeeded"], 10'000);
  EXPECT_THAT(
      keys_of(insert["latency_ns"]),
      ::testing::ElementsAre("p50", "p90", "p99", "p999", "p9999", "max", "mean", "samples"));
  EXPECT_TRUE(insert["service_ns"].is_null());
  EXPECT_FALSE(repetition["operations"].contains("scan"));
  EXPECT_GT(repetition["throughput_ops_s"], 0);
}

TEST(RunRecord, SaysWhatTheProcessorCountedOrWhyItDidNot) {
  BenchConfig config = testing::config_for<testing::FakeIndex>();
  config.threads = 2;
  const auto run = record(config);
  const auto& hardware = run["repetitions"][0]["hardware"];
  EXPECT_THAT(keys_of(hardware), ::testing::ElementsAre("counters", "missing"));
  EXPECT_EQ(hardware["counters"].size(), HardwareCounts::names.size());
  for (const auto& [name, count] : hardware["counters"].items())
    if (count.is_null()) {
      EXPECT_THAT(hardware["missing"].get<std::string>(), ::testing::HasSubstr(name));
    }
  if (const auto& count = hardware["counters"]["instructions"]; !count.is_null()) {
    EXPECT_GT(count, 10'000) << "one an operation at least";
  }
}

class Halved : public testing::FakeIndex {
 public:
  Outcome lookup(std::uint64_t, std::uint64_t&) override { return Outcome::not_found; }
};

TEST(RunRecord, ThroughputCountsSuccessesOnly) {
  const auto run = record(testing::config_for<Halved>());
  const auto& repetition = run["repetitions"][0];
  EXPECT_EQ(repetition["operations"]["lookup"]["failed"], 10'000);
  const double throughput = repetition["throughput_ops_s"];
  const double attempted = repetition["attempted_ops_s"];
  const double failed = repetition["failed_ops_s"];
  EXPECT_NEAR(throughput, attempted / 2, attempted / 1e6);
  EXPECT_NEAR(throughput + failed, attempted, attempted / 1e6);
}

TEST(RunRecord, SaysWhichOperationsWereTimed) {
  BenchConfig config = testing::config_for<testing::FakeIndex>();
  const auto latency_of = [](const nlohmann::ordered_json& run) {
    return run["configuration"]["latency"];
  };
  EXPECT_EQ(latency_of(record(config)),
            (nlohmann::ordered_json{{"method", "every"}, {"interval", 1}}));

  config.latency = Latency::sampled;
  config.latency_interval = 100;
  const auto run = record(config);
  EXPECT_EQ(latency_of(run), (nlohmann::ordered_json{{"method", "sampled"}, {"interval", 100}}));
  const auto& operations = run["repetitions"][0]["operations"];
  EXPECT_EQ(operations["lookup"]["attempted"], 10'000);
  const std::uint64_t samples = operations["lookup"]["latency_ns"]["samples"];
  EXPECT_NEAR(static_cast<double>(samples), 100, 50);

  config.latency = Latency::off;
  const auto without = record(config);
  EXPECT_EQ(latency_of(without),
            (nlohmann::ordered_json{{"method", "off"}, {"interval", nullptr}}));
  EXPECT_TRUE(without["repetitions"][0]["operations"]["lookup"]["latency_ns"].is_null());
}

TEST(RunRecord, ExportedHistogramsHoldEveryOperation) {
  BenchConfig config = testing::config_for<testing::FakeIndex>();
  config.export_histograms = true;
  const auto run = record(config);
  std::uint64_t count = 0;
  for (const auto& bucket : run["repetitions"][0]["operations"]["lookup"]["histogram"])
    count += bucket[1].get<std::uint64_t>();
  EXPECT_EQ(count, 10'000U);
}

}  // namespace
}  // namespace perdure::driver
