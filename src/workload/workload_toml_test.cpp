#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "workload/workload.h"

namespace perdure::workload {
namespace {

constexpr const char* good = R"(# a comment
name       = "ycsb-b"
records    = 100_000_000
operations = "50M"
seed       = 7
[mix]
lookup = 0.95
update = 0.05
[keys]
distribution = "zipfian"
theta        = 0.99
)";

TEST(WorkloadToml, ReadsTheDocumentedForm) {
  const auto workload = parse_workload(good, "w.toml");
  ASSERT_TRUE(workload.ok()) << workload.error().line();
  EXPECT_EQ(workload->name, "ycsb-b");
  EXPECT_EQ(workload->records, 100'000'000U);
  EXPECT_EQ(workload->operations, 50'000'000U);
  EXPECT_EQ(workload->seed, 7U);
  EXPECT_EQ(workload->mix, parse_mix("lookup=0.95,update=0.05").value());
  EXPECT_EQ(workload->distribution.kind, Distribution::Kind::zipfian);
  EXPECT_EQ(workload->keys.form, Keys::Form::mixed);
}

TEST(WorkloadToml, ReadsEverySetting) {
  const auto workload = parse_workload(R"(
records = "1k"
seconds = 2.5
mix_steps = 256
think_ns = 1_000
batch = 32
load_order = "sequential"
keys = { distribution = "self_similar", h = 0.1, scattered = false, form = "random", length = [8, 64], mean_length = 20 }
values.bytes = "1KiB"
scan = { count = [1, 50] }
mix = { scan = 1 }
)",
                                       "some/where/own.toml");
  ASSERT_TRUE(workload.ok()) << workload.error().line();
  EXPECT_EQ(workload->name, "own");
  EXPECT_EQ(workload->records, 1000U);
  EXPECT_EQ(workload->seconds, 2.5);
  EXPECT_EQ(workload->mix_steps, 256U);
  EXPECT_EQ(workload->think_ns, 1000U);
  EXPECT_EQ(workload->batch, 32U);
  EXPECT_EQ(workload->load_order, LoadOrder::sequential);
  EXPECT_EQ(workload->distribution.h, 0.1);
  EXPECT_FALSE(workload->distribution.scattered);
  EXPECT_EQ(workload->keys.max_bytes, 64U);
  EXPECT_EQ(workload->keys.mean_bytes, 20U);
  EXPECT_EQ(workload->value_bytes, 1024U);
  EXPECT_EQ(workload->scan, (ScanCount{1, 50}));
}

TEST(WorkloadToml, SharesAreExactDecimals) {
  const auto workload =
      parse_workload("records = 1\nmix = { lookup = 0.1, insert = 0.2, update = 0.7 }", "w.toml");
  ASSERT_TRUE(workload.ok()) << workload.error().line();
  EXPECT_EQ(workload->mix.parts_per_billion[Operation::insert], 200'000'000U);
  EXPECT_TRUE(parse_workload("records = 1\nmix = { lookup = 1 }", "w.toml").ok());
  EXPECT_TRUE(parse_workload("records = 1\nmix = { lookup = 1e-9, scan = 0.999999999 }", "w").ok());
}

TEST(WorkloadToml, StringsAndCommentsMayHoldAnyLetter) {
  const auto workload = parse_workload(
      "# \u00e9 \"\nname = \"\u017c \\\" # \u0444\" # '\u00e9\nrecords = 1 # \u00e9\nseed = 3",
      "w.toml");
  ASSERT_TRUE(workload.ok()) << workload.error().line();
  EXPECT_EQ(workload->name, "\u017c \" # \u0444");
  EXPECT_EQ(workload->seed, 3U);
}

TEST(WorkloadToml, KeyFilesAreRelativeToTheFile) {
  const auto workload =
      parse_workload("[keys]\nform = \"file\"\nfile = \"names.txt\"", "some/where/own.toml");
  ASSERT_TRUE(workload.ok()) << workload.error().line();
  EXPECT_EQ(workload->keys.file, std::filesystem::path("some/where/names.txt"));
  EXPECT_EQ(workload->records, 0U);
}

TEST(WorkloadToml, KeysMayBeTheFormAlone) {
  const auto workload = parse_workload("records = 9\nkeys = \"snowflake\"", "w.toml");
  ASSERT_TRUE(workload.ok()) << workload.error().line();
  EXPECT_EQ(workload->keys.form, Keys::Form::snowflake);
  EXPECT_EQ(workload->resolved_load_order(), LoadOrder::sequential);
  EXPECT_EQ(parse_workload("records = 9\nkeys = \"random:9-20\"", "w")->keys.max_bytes, 20U);
  EXPECT_EQ(parse_workload("records = 9\n[keys]\nform = \"url\"", "w")->keys.form, Keys::Form::url);
  EXPECT_EQ(parse_workload("keys = \"file:names.txt\"", "some/where/own.toml")->keys.file,
            std::filesystem::path("some/where/names.txt"));
}

struct Case {
  const char* text;
  int line;
  const char* part;
};
constexpr Case bad_files[] = {
    {"", 1, "records is missing"},
    {"records = 1\nrecrds = 2", 2, "did you mean 'records'?"},
    {"records = 1\n\nthreads = 2", 3, "known here: name records"},
    {"records = 1\n[mx]\nlookup = 1", 2, "did you mean 'mix'?"},
    {"records = 1\n[mix]\nlookup = 0.9\nupdate = 0.2", 2, "take away 0.1"},
    {"records = 1\n[mix]\nlookup = 0.9", 2, "add 0.1"},
    {"records = 1\n[mix]", 2, "add 1"},
    {"records = 1\n[mix]\nlokup = 1", 3, "did you mean 'lookup'?"},
    {"records = 1\n[mix]\nlookup = \"1\"", 3, "wrong type"},
    {"records = 1\n[mix]\nlookup = -1", 3, "no share"},
    {"records = 1\n[mix]\nlookup = nan", 3, "no share"},
    {"records = 1\n[mix]\nlookup = inf", 3, "no share"},
    {"records = 1\n[mix]\nlookup = 1e300", 3, "at most 1"},
    {"records = 1\n[mix]\nlookup = 0.12345678901\nscan = 0.87654321099", 3, "nine decimals"},
    {"records = 1\nmix = 3", 2, "make it a table"},
    {"records = -1", 1, "negative"},
    {"records = 1.5", 1, "whole number"},
    {"records = \"10X\"", 1, "not a count"},
    {"records = true", 1, "wrong type"},
    {"records = 1\nbatch = 0", 2, "no such batches"},
    {"records = 1\nbach = 2", 2, "did you mean 'batch'?"},
    {"seed = 1\nrecords = 0", 2, "no records"},
    {"records = 1\nname = 3", 2, "string in quotes"},
    {"records = 1\noperations = 5\nseconds = 2", 3, "both given"},
    {"records = 1\nseconds = -2.0", 2, "out of range"},
    {"records = 1\nseconds = \"x\"", 2, "wrong type"},
    {"records = 1\nload_order = \"randm\"", 2, "did you mean 'random'?"},
    {"records = 1\n[keys]\ndistribution = \"zipfan\"", 3, "did you mean 'zipfian'?"},
    {"records = 1\n[keys]\ndistribution = \"zipfian:1\"", 3, "setting of its own"},
    {"records = 1\n[keys]\ndistribution = \"zipfian\"\ntheta = 0.0", 4, "out of range"},
    {"records = 1\n[keys]\ntheta = 0.5", 3, "no effect"},
    {"records = 1\n[keys]\nh = 0.5", 3, "no effect"},
    {"records = 1\n[keys]\nscattered = true", 3, "no effect"},
    {"records = 1\n[keys]\nprefix = \"x\"", 3, "no effect"},
    {"records = 1\n[keys]\nlength = 9", 3, "no effect"},
    {"records = 1\n[keys]\nfile = \"x\"", 3, "no effect"},
    {"records = 1\n[scan]\ncount = 9", 3, "no effect"},
    {"records = 1\n[keys]\ndistribution = \"zipfian\"\nscattered = 1", 4, "true or false"},
    {"records = 1\n[keys]\nform = \"rnd\"", 3, "no form of keys"},
    {"records = 1\n[keys]\nform = \"snowflak\"", 3, "did you mean 'snowflake'?"},
    {"records = 1\n[keys]\nform = \"ipv4:8\"", 3, "takes no parameter"},
    {"records = 1\nkeys = \"emial\"", 2, "did you mean 'email'?"},
    {"records = 1\nkeys = 3", 2, "wrong type"},
    {"records = 200_000_000\nkeys = \"ipv4\"", 1, "give fewer"},
    {"records = 1\n[keys]\nform = \"file\"", 1, "no key file"},
    {"records = 1\n[keys]\nform = \"random\"\nlength = 7", 4, "8 to 2048"},
    {"records = 1\n[keys]\nform = \"random\"\nlength = [9]", 4, "wrong type"},
    {"records = 1\n[keys]\nform = \"random\"\nlength = [9, \"x\"]", 4, "not a count"},
    {"records = 1\n[keys]\nform = \"random\"\nlength = [90, 10]", 4, "smaller length first"},
    {"records = 1\n[values]\nbytes = 7", 3, "out of range"},
    {"records = 1\n[keys]\nform = \"random\"\n[values]\nbytes = 9_999_999", 5, "out of range"},
    {"records = 1\nmix = { scan = 1 }\n[scan]\ncount = 0", 4, "out of range"},
    {"records = 1\nmix = { scan = 1 }\n[scan]\ncount = 99_999_999_999", 4, "out of range"},
    {"records = 1\n[keys\ndistribution = 1", 2, "TOML"},
    {"records = 1\n[", 2, "TOML"},
    {"records = 1\n\u00e9 = 2", 2, "TOML"},
    {"records = 1\nseed = 4\u041f'", 2, "TOML"},
    {"# \u00e9\nrecords = \u00e9", 2, "TOML"},
    {"records = 1\nname = \"\\\u00e9\"", 2, "TOML"},
    {"records = 1\nname = \"\"\"\n\u00e9\"\"\"\nrecords = 2", 4, "TOML"},
    {"records = 1\n[\x01]", 2, "TOML"},
    {"records = 1\nrecords = 2", 2, "TOML"},
    {"records = 1\nname = \"open", 2, "TOML"},
    {"records = 99999999999999999999", 1, "TOML"},
    {"records = 1\nname = \"\xff\xfe\"", 2, "TOML"},
};

TEST(WorkloadToml, ErrorsNameFileLineAndRemedy) {
  for (const Case& c : bad_files) {
    const auto workload = parse_workload(c.text, "dir/w.toml");
    ASSERT_FALSE(workload.ok()) << c.text;
    const std::string line = workload.error().line();
    EXPECT_EQ(workload.error().where, "dir/w.toml:" + std::to_string(c.line)) << c.text << "\n"
                                                                              << line;
    EXPECT_NE(line.find(c.part), std::string::npos) << c.text << "\n" << line;
    EXPECT_FALSE(workload.error().remedy.empty()) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_EQ(workload.error().code, ErrorCode::bad_input);
  }
}

TEST(WorkloadToml, AMissingFileIsNotFound) {
  EXPECT_EQ(load_workload("/nonexistent/w.toml").error().code, ErrorCode::not_found);
  EXPECT_EQ(load_workload("/tmp").error().code, ErrorCode::not_found);
}

TEST(WorkloadToml, EveryShippedWorkloadLoads) {
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../../workloads";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    const auto workload = load_workload(entry.path());
    ASSERT_TRUE(workload.ok()) << workload.error().line();
    EXPECT_EQ(workload->name, entry.path().stem().string());
    EXPECT_NE(workload->operations == 0, workload->seconds == 0) << entry.path();
    names.insert(workload->name);
  }
  for (const char* name :
       {"ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "ep2-lookup", "ep2-insert",
        "ep2-update", "ep2-scan", "ep2-mixed-90-10", "ep2-mixed-50-50", "ep2-mixed-10-90"})
    EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace perdure::workload
