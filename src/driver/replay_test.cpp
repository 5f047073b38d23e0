// Replays of traces that are written here, record by record.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "driver/bench.h"
#include "driver/replay_record.h"
#include "driver/replay_run.h"
#include "engine/store/record.h"

namespace perdure::driver {
namespace {

using engine::Action;
using engine::EntryText;
using engine::Observation;
using engine::Status;

constexpr std::uint64_t pool_of_replay_bytes = 64 << 20;

class ReplayTest : public ::testing::Test {
 protected:
  ~ReplayTest() override {
    std::filesystem::remove(path_ + ".trace");
    std::filesystem::remove(path_ + ".pool");
  }
  void add(const Observation& seen) { engine::append_record(seen, text_); }

  [[nodiscard]] BenchConfig config(unsigned threads) {
    std::ofstream(path_ + ".trace", std::ios::binary) << text_ << end_;
    auto trace = std::move(engine::Trace::open(path_ + ".trace")).value();
    ReplayRun replay{trace, "pactree", trace->deal(threads).value()};
    BenchConfig config;
    config.index = **IndexRegistry::find("engine");
    config.replay = std::make_shared<ReplayRun>(std::move(replay));
    config.workload.keys.form = workload::Keys::Form::random;
    config.pool_path = path_ + ".pool";
    config.pool_bytes = pool_of_replay_bytes;
    config.force = true;
    config.threads = threads;
    config.pin = false;
    return config;
  }
  [[nodiscard]] BenchResult replay(const BenchConfig& config) {
    Progress quiet(true);
    auto result = run_bench(config, quiet);
    EXPECT_TRUE(result.ok()) << result.error().line();
    return std::move(result).value();
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("perdure_replay_test." + std::to_string(getpid())))
          .string();
  std::string text_ =
      engine::TraceHeader{.pool_bytes = pool_of_replay_bytes, .documents = 0, .index = "pactree"}
          .encoded();
  std::string end_;
};

TEST_F(ReplayTest, ExecutesEachOperationWithItsEntries) {
  const EntryText common{
      "\xfe"
      "common",
      false};
  const EntryText own{
      "\xfe"
      "own",
      true};
  const std::array<const EntryText*, 2> both{&common, &own};
  const std::array<const EntryText*, 1> taken{&own};
  add({.action = Action::insert,
       .key = "a",
       .document = "one",
       .added = both,
       .has_entries = true});
  add({.action = Action::insert,
       .status = Status::duplicate,
       .key = "b",
       .document = "two",
       .added = taken,
       .has_entries = true});
  add({.action = Action::modify,
       .key = "a",
       .document = "three",
       .gone = taken,
       .has_entries = true});
  add({.action = Action::insert,
       .key = "b",
       .document = "two",
       .added = taken,
       .has_entries = true});
  add({.action = Action::read, .key = "a", .document = "three"});
  add({.action = Action::scan, .key = "a", .to = "c", .count = 10, .found = 2});
  add({.action = Action::scan_entries, .key = "\xfe", .count = 10, .found = 2});
  add({.action = Action::modify, .status = Status::unchanged, .key = "a"});
  add({.action = Action::remove, .key = "b", .gone = taken, .has_entries = true});
  add({.action = Action::lookup, .status = Status::not_found, .key = "b"});
  const BenchConfig config = this->config(1);
  const BenchResult result = replay(config);
  ASSERT_NE(result.replay, nullptr);
  const ReplayTally& tally = result.replay->tally;
  EXPECT_EQ(tally.differences, 0U) << tally.first_difference;
  EXPECT_EQ(tally.other_scans, 0U);
  EXPECT_EQ(tally.executed(), 10U);
  EXPECT_EQ(result.replay->digest.documents, 1U);
  EXPECT_EQ(result.replay->digest.entries, 1U);
  EXPECT_TRUE(is_as_recorded(config, result));
}

TEST_F(ReplayTest, CountsAnswersThatDifferAndNamesTheFirst) {
  add({.action = Action::insert, .key = "a", .document = "one"});
  add({.action = Action::lookup, .key = "a", .document = "another"});
  add({.action = Action::remove, .status = Status::not_found, .key = "a"});
  add({.action = Action::insert, .status = Status::out_of_space, .key = "c"});
  add({.action = Action::scan, .key = "a", .count = 10, .found = 1});
  const BenchConfig config = this->config(1);
  const BenchResult result = replay(config);
  const ReplayTally& tally = result.replay->tally;
  EXPECT_EQ(tally.differences, 2U);
  EXPECT_EQ(tally.first_difference,
            "operation 2 (lookup): finds another document than was recorded");
  EXPECT_EQ(tally.refused, 1U);
  EXPECT_EQ(tally.other_scans, 1U);
  EXPECT_EQ(result.replay->digest.documents, 0U);
  EXPECT_FALSE(is_as_recorded(config, result));
}

TEST_F(ReplayTest, ThreadsKeepTheOrderOfEachKey) {
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; ++i) texts.push_back(std::to_string(i % 50));
  for (int i = 0; i < 3000; ++i) {
    const std::string document = "v" + std::to_string(i);
    add({.action = Action::upsert,
         .key = texts[static_cast<std::size_t>(i)],
         .document = document});
    add({.action = Action::lookup,
         .key = texts[static_cast<std::size_t>(i)],
         .document = document});
  }
  const BenchResult alone = replay(config(1));
  end_ = engine::TraceEnd{.operations = 6000, .digest = alone.replay->digest}.encoded();
  const BenchConfig config = this->config(3);
  const BenchResult together = replay(config);
  EXPECT_EQ(together.replay->tally.differences, 0U) << together.replay->tally.first_difference;
  EXPECT_TRUE(is_as_recorded(config, together));
  // A last write more, and the contents are not those that were recorded.
  add({.action = Action::upsert, .key = "7", .document = "v"});
  end_ = engine::TraceEnd{.operations = 6001, .digest = alone.replay->digest}.encoded();
  const BenchConfig changed = this->config(3);
  EXPECT_FALSE(is_as_recorded(changed, replay(changed)));
}

}  // namespace
}  // namespace perdure::driver
