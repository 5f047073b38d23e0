#include "workload/workload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "workload/keys.h"

namespace perdure::workload {
namespace {

TEST(ParseDistribution, ReadsNamesAndParameters) {
  using Kind = Distribution::Kind;
  EXPECT_EQ(parse_distribution("uniform")->kind, Kind::uniform);
  EXPECT_EQ(parse_distribution("zipfian")->theta, 0.99);
  EXPECT_EQ(parse_distribution("zipfian:1.2")->theta, 1.2);
  EXPECT_EQ(parse_distribution("latest:0.5")->kind, Kind::latest);
  EXPECT_EQ(parse_distribution("self_similar:0.1")->h, 0.1);
  EXPECT_EQ(parse_distribution("sequential")->kind, Kind::sequential);
}

TEST(ParseDistribution, RejectsWithPlaceAndRemedy) {
  struct Case {
    const char* text;
    const char* part;
  };
  for (const auto& [text, part] : {Case{"zipfan", "did you mean 'zipfian'?"},
                                   {"", "use uniform"},
                                   {"uniform:1", "takes no parameter"},
                                   {"zipfian:", "is no number"},
                                   {"zipfian:x", "is no number"},
                                   {"zipfian:nan", "is no number"},
                                   {"zipfian:inf", "is no number"},
                                   {"zipfian:0", "out of range"},
                                   {"zipfian:-1", "out of range"},
                                   {"zipfian:11", "out of range"},
                                   {"self_similar:0.6", "out of range"},
                                   {"self_similar:0.2x", "write h"}}) {
    const auto result = parse_distribution(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().where, "--distribution") << text;
    EXPECT_NE(result.error().line().find(part), std::string::npos) << result.error().line();
    EXPECT_FALSE(result.error().remedy.empty());
  }
}

TEST(ParseKeys, ReadsFormsAndParameters) {
  using Form = Keys::Form;
  EXPECT_EQ(parse_keys("mixed")->form, Form::mixed);
  EXPECT_EQ(parse_keys("golden")->form, Form::golden);
  EXPECT_EQ(parse_keys("prefixed:a:b")->prefix, "a:b");
  EXPECT_EQ(parse_keys("random:24")->max_bytes, 24U);
  EXPECT_EQ(parse_keys("random:8-2048")->min_bytes, 8U);
  EXPECT_EQ(parse_keys("random:8-2048")->mean_bytes, 0U);
  EXPECT_EQ(parse_keys("random:8-256~21")->mean_bytes, 21U);
  EXPECT_EQ(parse_keys("file:names.txt")->file, "names.txt");
  EXPECT_EQ(parse_keys("snowflake")->form, Form::snowflake);
  EXPECT_EQ(parse_keys("kmer_text")->form, Form::kmer_text);
  for (const char* text :
       {"mixd", "mixed:1", "ipv4:8", "url:", "uid", "email@x", "random:7", "random:8-2049",
        "random:20-10", "random:x", "file", "file:", "random:-", "random:8-20~8", "random:8-20~20",
        "random:8-20~0", "random:8-20~", "random:9~9"}) {
    const auto result = parse_keys(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().where, "--keys") << text;
    EXPECT_FALSE(result.error().remedy.empty()) << text;
  }
  EXPECT_FALSE(parse_keys("prefixed:" + std::string(2029, 'p')).ok());
  EXPECT_TRUE(parse_keys("prefixed:" + std::string(2028, 'p')).ok());
}

TEST(ParseKeys, EveryFormHasItsNameAndKind) {
  using Form = Keys::Form;
  for (auto form = Form::mixed; form <= Form::url; form = static_cast<Form>(int(form) + 1)) {
    const std::string parameter = form == Form::file || form == Form::integers ? ":x" : "";
    const auto keys = parse_keys(name_of(form) + parameter);
    ASSERT_TRUE(keys.ok()) << name_of(form);
    EXPECT_EQ(keys->form, form);
  }
  for (const Form form : {Form::snowflake, Form::clustered, Form::ipv4, Form::kmer}) {
    EXPECT_FALSE(is_bytes(form));
    EXPECT_TRUE(is_key_set(form));
  }
  for (const Form form : {Form::uuid, Form::uuid_binary, Form::kmer_text, Form::email, Form::url}) {
    EXPECT_TRUE(is_bytes(form));
    EXPECT_TRUE(is_key_set(form));
  }
  for (const Form form : {Form::mixed, Form::integers, Form::prefixed, Form::file})
    EXPECT_FALSE(is_key_set(form));
}

TEST(ParseKeys, SuggestsAName) {
  for (const auto& [text, remedy] : std::initializer_list<std::pair<const char*, const char*>>{
           {"snowflak", "did you mean 'snowflake'?"},
           {"uuid-binary", "did you mean 'uuid_binary'?"},
           {"emails", "did you mean 'email'?"},
           {"ip4", "did you mean 'ipv4'?"},
           {"kmers", "did you mean 'kmer'?"}})
    EXPECT_EQ(parse_keys(text).error().line(),
              std::string("--keys: no form of keys is called '") + text + "'; " + remedy);
}

TEST(ParseScanCount, ReadsNumbersAndRanges) {
  EXPECT_EQ(*parse_scan_count("100"), (ScanCount{100, 100}));
  EXPECT_EQ(*parse_scan_count("1-1k"), (ScanCount{1, 1000}));
  for (const char* text : {"", "0", "5-1", "0-9", "99999999999", "1-", "-1", "x"})
    EXPECT_FALSE(parse_scan_count(text).ok()) << text;
}

TEST(Validate, NamesTheSettingThatIsWrong) {
  const auto fault_of = [](auto change) {
    Workload workload;
    change(workload);
    const auto result = validate(workload);
    return result.ok() ? std::string("ok") : result.error().where;
  };
  EXPECT_EQ(fault_of([](Workload&) {}), "ok");
  EXPECT_EQ(fault_of([](Workload& w) { w.records = 0; }), "records");
  EXPECT_EQ(fault_of([](Workload& w) { w.records = ~0ULL; }), "records");
  EXPECT_EQ(fault_of([](Workload& w) { w.mix = Mix{}; }), "mix");
  EXPECT_EQ(fault_of([](Workload& w) { w.mix_steps = 1; }), "mix_steps");
  EXPECT_EQ(fault_of([](Workload& w) { w.mix_steps = 65537; }), "mix_steps");
  EXPECT_EQ(fault_of([](Workload& w) { w.mix_steps = 256; }), "ok");
  EXPECT_EQ(fault_of([](Workload& w) { w.think_ns = 1'000'000'001; }), "think_ns");
  EXPECT_EQ(fault_of([](Workload& w) { w.batch = 0; }), "batch");
  EXPECT_EQ(fault_of([](Workload& w) { w.batch = 1025; }), "batch");
  EXPECT_EQ(fault_of([](Workload& w) { w.batch = 1024; }), "ok");
  EXPECT_EQ(fault_of([](Workload& w) { w.operations = ~0ULL; }), "operations");
  EXPECT_EQ(fault_of([](Workload& w) { w.seconds = -1; }), "seconds");
  EXPECT_EQ(fault_of([](Workload& w) { w.seconds = 0.0 / 0.0; }), "seconds");
  EXPECT_EQ(fault_of([](Workload& w) { w.operations = 1, w.seconds = 1; }), "seconds");
  EXPECT_EQ(fault_of([](Workload& w) { w.scan = {0, 5}; }), "scan.count");
  EXPECT_EQ(fault_of([](Workload& w) { w.value_bytes = 16; }), "ok");
  EXPECT_EQ(fault_of([](Workload& w) { w.value_bytes = 7; }), "values.bytes");
  EXPECT_EQ(fault_of([](Workload& w) {
              w.keys.form = Keys::Form::random;
              w.value_bytes = 7;
            }),
            "values.bytes");
  EXPECT_EQ(fault_of([](Workload& w) { w.keys.form = Keys::Form::file; }), "keys.file");
  EXPECT_EQ(fault_of([](Workload& w) {
              w.distribution.kind = Distribution::Kind::zipfian;
              w.distribution.theta = 0;
            }),
            "keys.theta");
  EXPECT_EQ(fault_of([](Workload& w) {
              w.operations = 5;
              w.limit_seconds(2);
            }),
            "ok");
}

class KeyFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("perdure-keys-" + std::to_string(getpid()));
    std::ofstream(path_) << "one\ntwo\nthree\nfour\n";
    workload_.keys.form = Keys::Form::file;
    workload_.keys.file = path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
  Workload workload_;
};

TEST_F(KeyFileTest, SuppliesEveryLineUnlessRecordsAreGiven) {
  workload_.records = 0;
  ASSERT_TRUE(validate(workload_).ok());
  ASSERT_TRUE(open_key_file(workload_).ok());
  EXPECT_EQ(workload_.records, 4U);
  workload_.records = 3;
  ASSERT_TRUE(open_key_file(workload_).ok());
  EXPECT_EQ(workload_.records, 3U);
}

TEST_F(KeyFileTest, MustHoldALineForEveryRecordAndInsert) {
  workload_.records = 5;
  EXPECT_EQ(open_key_file(workload_).error().code, ErrorCode::bad_input);
  workload_.records = 3;
  workload_.mix = parse_mix("insert=0.5,lookup=0.5").value();
  workload_.operations = 2;
  EXPECT_TRUE(open_key_file(workload_).ok());
  workload_.operations = 4;
  const auto result = open_key_file(workload_);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().line().find("4 keys"), std::string::npos) << result.error().line();
}

TEST(JsonOf, CarriesTheResolvedDescription) {
  Workload workload;
  workload.mix = parse_mix("lookup=0.75,scan=0.25").value();
  workload.distribution = parse_distribution("zipfian:1.1").value();
  workload.keys = parse_keys("random:8-16").value();
  workload.scan = {1, 100};
  const nlohmann::json json = json_of(workload);
  EXPECT_EQ(json.at("mix"), (nlohmann::json{{"lookup", 0.75}, {"scan", 0.25}}));
  EXPECT_EQ(json.at("distribution"), "zipfian");
  EXPECT_EQ(json.at("theta"), 1.1);
  EXPECT_EQ(json.at("keys").at("kind"), "bytes");
  EXPECT_EQ(json.at("keys").at("max_bytes"), 16);
  EXPECT_EQ(json.at("scan_count"), (nlohmann::json{1, 100}));
  EXPECT_FALSE(json.contains("h"));
  EXPECT_FALSE(json.contains("mix_steps"));
  EXPECT_FALSE(json.contains("think_ns"));
  EXPECT_FALSE(json.contains("batch"));
  workload.batch = 32;
  EXPECT_EQ(json_of(workload).at("batch"), 32);
  workload.mix_steps = 256;
  workload.think_ns = 90;
  EXPECT_EQ(json_of(workload).at("mix_steps"), 256);
  EXPECT_EQ(json_of(workload).at("think_ns"), 90);
}

}  // namespace
}  // namespace perdure::workload
