#include "platform/description/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace perdure::platform {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Entries = std::map<std::string, std::string>;  // "cpu.sockets" -> "{ value = 2, ... }"

/// A whole platform with the defaults of Platform; entries are replaced, or left out when empty.
std::string file_with(const Entries& changed, const std::string& domain = "adr",
                      const std::string& top = "") {
  std::string text = "title = \"a test\"\npersistence_domain = \"" + domain + "\"\n" + top;
  std::string section;
  for (const PlatformField& field : platform_fields()) {
    if (section != field.section) text += "[" + (section = field.section) + "]\n";
    const std::string path = section + "." + std::string(field.key);
    const double number = field.get(Platform{});
    std::string value = field.kind == FieldKind::boolean ? (number != 0 ? "true" : "false")
                        : field.kind == FieldKind::integer
                            ? std::to_string(static_cast<std::uint64_t>(number))
                            : std::to_string(number);
    std::string entry = "{ value = " + value + ", source = \"s\" }";
    if (const auto at = changed.find(path); at != changed.end()) entry = at->second;
    if (!entry.empty()) text += std::string(field.key) + " = " + entry + "\n";
  }
  return text;
}

std::string with_value(const std::string& value) {
  return "{ value = " + value + ", source = \"s\" }";
}

std::size_t line_of(const std::string& text, const std::string& what) {
  const auto at = text.find(what);
  return 1 + static_cast<std::size_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

TEST(PlatformDescription, ReadsEveryFieldWithItsSource) {
  const auto read =
      parse_platform(file_with({{"cpu.clock_ghz", "{ value = 3, source = \"a data sheet\" }"},
                                {"cpu.streamer", with_value("false")}}),
                     "mine.toml");
  ASSERT_TRUE(read.ok()) << read.error().line();
  EXPECT_EQ(read->platform.name, "mine");
  EXPECT_EQ(read->platform.title, "a test");
  EXPECT_EQ(read->platform.cpu.clock_ghz, 3);
  EXPECT_FALSE(read->platform.cpu.streamer);
  ASSERT_EQ(read->values.size(), platform_fields().size());
  const auto json = json_of(*read);
  EXPECT_EQ(json["values"].size(), platform_fields().size());
  for (const auto& value : json["values"]) {
    EXPECT_FALSE(value["source"].get<std::string>().empty());
    if (value["key"] == "clock_ghz") {
      EXPECT_EQ(value["source"], "a data sheet");
      EXPECT_EQ(value["unit"], "GHz");
      EXPECT_EQ(value["from"], "mine");
    }
  }
}

struct Bad {
  const char* field;
  std::string entry;
  const char* says;
};

class BadValues : public ::testing::TestWithParam<Bad> {};

TEST_P(BadValues, NameLineAndRemedy) {
  const std::string text = file_with({{GetParam().field, GetParam().entry}});
  const auto read = parse_platform(text, "bad.toml");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::bad_input);
  EXPECT_THAT(read.error().what, HasSubstr(GetParam().says));
  EXPECT_FALSE(read.error().remedy.empty());
  if (!GetParam().entry.empty()) {
    EXPECT_EQ(read.error().where, "bad.toml:" + std::to_string(line_of(text, GetParam().entry)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    PlatformDescription, BadValues,
    ::testing::Values(
        Bad{"cpu.clock_ghz", "2.7", "has no source"}, Bad{"cpu.clock_ghz", "", "is missing"},
        Bad{"cpu.clock_ghz", "{ value = 2.7 }", "has no source"},
        Bad{"cpu.clock_ghz", "{ value = 2.7, source = \" \" }", "is empty"},
        Bad{"cpu.clock_ghz", "{ value = 2.7, source = 3 }", "is not text"},
        Bad{"cpu.clock_ghz", "{ source = \"s\" }", "has no value"},
        Bad{"cpu.clock_ghz", "{ value = 2.71, source = \"s\", sauce = 1 }", "has no 'sauce'"},
        Bad{"cpu.clock_ghz", "{ value = \"2.7\", source = \"s\" }", "wrong type"},
        Bad{"cpu.clock_ghz", "{ value = nan, source = \"s\" }", "out of range"},
        Bad{"cpu.clock_ghz", "{ value = inf, source = \"s\" }", "out of range"},
        Bad{"cpu.clock_ghz", "{ value = -1, source = \"s\" }", "out of range: -1 GHz"},
        Bad{"cpu.sockets", "{ value = 2.0, source = \"s\" }", "wrong type"},
        Bad{"cpu.sockets", "{ value = 9223372036854775807, source = \"s\" }", "out of range"},
        Bad{"cpu.streamer", "{ value = 1, source = \"here\" }", "is a switch"},
        Bad{"cpu.l1_bytes", "{ value = 32769, source = \"s\" }", "no multiple of 64 B"},
        Bad{"cpu.llc_latency_cycles", "{ value = 12, source = \"s\" }", "is below"},
        Bad{"pm.read_hit_latency_ns", "{ value = 4000, source = \"s\" }", "above"}),
    [](const auto& info) { return "Case" + std::to_string(info.index); });

TEST(PlatformDescription, TopLevelMistakesNameTheirLine) {
  const struct {
    std::string text;
    const char* says;
    const char* where;
  } cases[] = {
      {"", "is missing", "bad.toml:1"},
      {"nam = 1", "nothing is called 'nam'", "bad.toml:1"},
      {"\nname = \"a b\"", "is no name", "bad.toml:2"},
      {"title = 3", "title is not text", "bad.toml:1"},
      {"persistence_domain = \"ard\"", "no persistence domain", "bad.toml:1"},
      {"\n\ncpu = 3", "cpu is not a table", "bad.toml:3"},
      {"[cpu]\nclok_ghz = 3", "[cpu] has no 'clok_ghz'", "bad.toml:2"},
      {"base = \"nowhere\"", "there is no platform 'nowhere'", "bad.toml:1"},
      {"name = \"x", "", "bad.toml:1"},
      {std::string("\x00\x01\xff\xfe", 4), "", "bad.toml:1"},
  };
  for (const auto& one : cases) {
    const auto read = parse_platform(one.text, "bad.toml");
    ASSERT_FALSE(read.ok()) << one.text;
    EXPECT_THAT(read.error().what, HasSubstr(one.says)) << one.text;
    EXPECT_EQ(read.error().where, one.where) << one.text;
    EXPECT_FALSE(read.error().remedy.empty()) << one.text;
  }
  EXPECT_THAT(parse_platform("[cpu]\nclok_ghz = 3", "bad.toml").error().remedy,
              HasSubstr("did you mean 'clock_ghz'?"));
}

TEST(PlatformDescription, NoPersistentMemoryHasNoPersistenceDomain) {
  const Entries absent = {{"pm.present", with_value("false")}};
  const auto read = parse_platform(file_with(absent), "bad.toml");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().where, "bad.toml:2");
  EXPECT_TRUE(parse_platform(file_with(absent, "none"), "good.toml").ok());
}

class OnDisk : public ::testing::Test {
 protected:
  OnDisk()
      : folder_(fs::temp_directory_path() / ("perdure_platforms_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~OnDisk() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  fs::path folder_;
};

TEST_F(OnDisk, BaseGivesWhatTheFileDoesNot) {
  write("below.toml", file_with({{"cpu.clock_ghz", with_value("3.5")}}));
  const auto read = load_platform(
      write("above.toml", "base = \"below.toml\"\n[cpu]\ncores_per_socket = " + with_value("4")));
  ASSERT_TRUE(read.ok()) << read.error().line();
  EXPECT_EQ(read->platform.name, "above");
  EXPECT_EQ(read->platform.cpu.clock_ghz, 3.5);
  EXPECT_EQ(read->platform.cpu.cores_per_socket, 4U);
  for (const DescribedValue& value : read->values)
    EXPECT_EQ(value.platform, value.field->key == "cores_per_socket" ? "above" : "below");
}

TEST_F(OnDisk, ContradictionWithABaseIsTheFilesOwn) {
  write("below.toml", file_with({}));
  const std::string path =
      write("above.toml", "base = \"below.toml\"\n[cpu]\nl1_ways = " + with_value("7"));
  const auto read = load_platform(path);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().where, path + ":3");
}

TEST_F(OnDisk, BasesInACircleAreAnError) {
  write("a.toml", "base = \"b.toml\"\n");
  const auto read = load_platform(write("b.toml", "base = \"a.toml\"\n"));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().what, HasSubstr("circle"));
}

TEST_F(OnDisk, FolderAndAbsentFileAreNotFound) {
  EXPECT_EQ(load_platform(folder_.string()).error().code, ErrorCode::not_found);
  EXPECT_EQ(load_platform((folder_ / "none.toml").string()).error().code, ErrorCode::not_found);
  EXPECT_EQ(load_platform("").error().code, ErrorCode::not_found);
}

TEST(PlatformDescription, FingerprintIsOfTheValuesOnly) {
  Platform one;
  Platform same = one;
  same.name = "another";
  same.title = "another";
  EXPECT_EQ(fingerprint_of(one), fingerprint_of(same));
  for (const PlatformField& field : platform_fields()) {
    Platform other;
    field.set(other, field.get(other) == field.minimum ? field.maximum : field.minimum);
    EXPECT_NE(fingerprint_of(one), fingerprint_of(other)) << field.key;
  }
  Platform eadr;
  eadr.domain = PersistenceDomain::eadr;
  EXPECT_NE(fingerprint_of(one), fingerprint_of(eadr));
}

TEST(PlatformDescription, EveryShippedPlatformLoads) {
  const auto folder = fs::path(__FILE__).parent_path() / "../../../platforms";
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto read = load_platform(entry.path().string());
    ASSERT_TRUE(read.ok()) << read.error().line();
    EXPECT_EQ(read->platform.name, entry.path().stem().string());
    EXPECT_FALSE(read->platform.title.empty());
    ++count;
  }
  EXPECT_GE(count, 1U);
}

}  // namespace
}  // namespace perdure::platform
