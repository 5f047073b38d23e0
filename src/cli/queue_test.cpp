// `bench` and `list` of queues, run as a user does.
#include <nlohmann/json.hpp>

#include "cli/test_program.h"

namespace perdure::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Bad bad_queue_flags[] = {
    {"bench --index queue:mutx",
     "--index queue:mutx: there is no such index or queue; did you "
     "mean 'queue:mutex'?"},
    {"bench --index queue", "a queue is named with its mode; give queue:mutex"},
    {"bench --index queue --mode mutx", "did you mean 'queue:mutex'?"},
    {"bench --index zzzzz", "`perdure list indexes` and `perdure list queues` show them"},
    {"bench --index stdmap --producers 2", "--producers 2: is for queues, and stdmap is none"},
    {"bench --index stdmap --consumers 2", "--consumers 2: is for queues"},
    {"bench --index stdmap --payload 4KiB", "--payload 4KiB: is for queues"},
    {"bench --index stdmap --prefill 4", "--prefill 4: is for queues"},
    {"bench --index queue:mutex --threads 2", "--threads 2: is for indexes"},
    {"bench --index queue:mutex --workload ycsb-a", "--workload ycsb-a: is for indexes"},
    {"bench --index queue:mutex --records 10", "--records 10: is for indexes"},
    {"bench --index queue:mutex --mix lookup=1", "--mix lookup=1: is for indexes"},
    {"bench --index queue:mutex --mix-steps 256", "--mix-steps 256: is for indexes"},
    {"bench --index queue:mutex --batch 8", "--batch 8: is for indexes"},
    {"bench --index queue:mutex --keys random:8", "--keys random:8: is for indexes"},
    {"bench --index queue:mutex --key-kind integer", "--key-kind integer: is for indexes"},
    {"bench --index queue:mutex --value-bytes 9", "--value-bytes 9: is for indexes"},
    {"bench --index queue:mutex --rate 9", "--rate 9: is for indexes"},
    {"bench --index queue:mutex --bulk-load", "--bulk-load: is for indexes"},
    {"bench --index queue:mutex --lock rw", "--lock rw: is for indexes"},
    {"bench --index queue:mutex --answers a --verify", "--answers a: is for indexes"},
    {"bench --index queue:mutex --parallel parallel-saturated", "share its queue"},
    {"bench --index queue:mutex --producers 0", "--producers 0: out of range"},
    {"bench --index queue:mutex --producers 200 --consumers 200", "give fewer"},
    {"bench --index queue:mutex --payload 65KiB", "--payload 65KiB: out of range"},
    {"bench --index queue:mutex --payload 7 --verify", "--payload 7: too short"},
    {"bench --index queue:mutex --consumers 0", "--consumers 0: without an end"},
    {"bench --index queue:mutex --consumers 0 --seconds 1", "--consumers 0: without an end"},
    {"bench --index queue:mutex --consumers 0 --operations 5 --option slots=4",
     "--operations 5: queue:mutex has room for 4 payloads"},
    {"bench --index queue:mutex --prefill 5 --option slots=4",
     "--prefill 5: queue:mutex holds 4 payloads"},
    {"bench --index queue:mutex --option slot=4", "did you mean 'slots'?"},
    {"bench --index queue:mutex --reuse", "nothing of queue:mutex outlives a run"},
    {"list queue", "did you mean 'queues'?"},
};

TEST_F(Cli, BadInputOfAQueueIsOneLine) {
  for (const Bad& bad : bad_queue_flags) expect_refused(bad);
}

TEST_F(Cli, AQueueIsMeasuredVerifiedAndChecked) {
  const Finished finished =
      run("bench --index queue:mutex --producers 2 --consumers 3 --payload 300 --prefill 10 "
          "--seed 7 --operations 5k --repetitions 2 --verify --check --json --export-histograms "
          "--quiet");
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto record = nlohmann::json::parse(finished.out);
  EXPECT_EQ(record["threads"], 5);
  EXPECT_EQ(record["seed"], 7);
  EXPECT_TRUE(record["key_kind"].is_null());
  EXPECT_EQ(record["verification"]["wrong"], 0);
  EXPECT_GE(record["verification"]["checked"], 10'000);
  EXPECT_EQ(record["load"]["records"], 10);
  const auto& queue = record["configuration"]["queue"];
  EXPECT_EQ(queue["consumers"], 3);
  EXPECT_EQ(queue["payload_bytes"], 300);
  EXPECT_EQ(queue["progress"], "blocking");
  ASSERT_EQ(record["repetitions"].size(), 2U);
  for (const auto& repetition : record["repetitions"]) {
    const double seconds = repetition["seconds"];
    for (const char* const operation : {"push", "pop"}) {
      const auto& found = repetition["operations"][operation];
      EXPECT_EQ(found["succeeded"], 5000);
      EXPECT_EQ(found["failed"], 0);
      EXPECT_NEAR(found["succeeded_ops_s"].get<double>(), 5000 / seconds, 1);
    }
    EXPECT_NEAR(repetition["throughput_ops_s"].get<double>(), 10'000 / seconds, 1);
  }
}

TEST_F(Cli, TheTableOfAQueueHasPushesAndPopsApart) {
  const Finished finished = run(
      "bench --index queue --mode mutex --operations 2k --repetitions 1 --latency every --quiet");
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("queue:mutex (blocking), 1 producer, 1 consumer, payloads "
                                      "of 8 bytes\n"));
  EXPECT_THAT(finished.out, HasSubstr("push               2000"));
  EXPECT_THAT(finished.out, HasSubstr("pop                2000"));
  EXPECT_THAT(finished.out, HasSubstr("mean"));
  EXPECT_THAT(finished.out, Not(HasSubstr("record")));
}

TEST_F(Cli, ADryRunOfAQueueSaysWhatItWouldDo) {
  const Finished finished =
      run("bench --index queue:mutex --producers 14 --consumers 14 --payload 4KiB --dry-run");
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto configuration = nlohmann::json::parse(finished.out);
  EXPECT_EQ(configuration["threads"], 28);
  EXPECT_EQ(configuration["queue"]["payload_bytes"], 4096);
  EXPECT_EQ(configuration["options"]["slots"], 32768);
  EXPECT_TRUE(configuration["workload"].is_null());
}

TEST_F(Cli, QueuesAreListedWithTheirProgressAndOptions) {
  const Finished finished = run("list queues --json");
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto list = nlohmann::json::parse(finished.out);
  const auto found =
      std::ranges::find_if(list, [](const auto& entry) { return entry["name"] == "queue:mutex"; });
  ASSERT_NE(found, list.end());
  EXPECT_EQ((*found)["progress"], "blocking");
  EXPECT_EQ((*found)["index_class"], "in_memory");
  EXPECT_EQ((*found)["options"][0]["name"], "slots");
  EXPECT_THAT(run("list queues").out, HasSubstr("progress"));
  EXPECT_THAT(run("list options").out, HasSubstr("queue:mutex"));
}

}  // namespace
}  // namespace perdure::cli
