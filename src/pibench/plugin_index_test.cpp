#include "pibench/plugin_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "index/reference/test_reference.h"

namespace perdure {
namespace {

PluginOptions options_for(const char* library) {
  PluginOptions options;
  options.library = library;
  return options;
}

std::unique_ptr<IntegerIndex> load_honest() {
  auto index = load_plugin<IntegerKeys>(options_for(PERDURE_HONEST_WRAPPER));
  EXPECT_TRUE(index.ok()) << (index.ok() ? "" : index.error().line());
  return std::move(index).value();
}

std::unique_ptr<IntegerIndex> load_lying(const char* lie) {
  setenv("LYING_WRAPPER", lie, 1);
  auto index = load_plugin<IntegerKeys>(options_for(PERDURE_LYING_WRAPPER));
  EXPECT_TRUE(index.ok()) << (index.ok() ? "" : index.error().line());
  for (std::uint64_t key = 1; key <= 10; ++key) index.value()->insert(key, 10 * key);
  return std::move(index).value();
}

TEST(Plugin, DrivesAWrapperLikeAnyIndex) {
  const auto index = load_honest();
  check_integer_outcomes(*index);
  EXPECT_TRUE(index->requires_openmp_workers());
  check_bulk_load(*load_honest());
}

TEST(Plugin, PassesByteStringsOfOneLength) {
  PluginOptions options = options_for(PERDURE_HONEST_WRAPPER);
  options.key_bytes = max_plugin_key_bytes;
  options.value_bytes = max_plugin_value_bytes;
  auto loaded = load_plugin<ByteKeys>(options);
  ASSERT_TRUE(loaded.ok()) << loaded.error().line();
  BytesIndex& index = *loaded.value();
  const auto key = [](char last) { return std::string(127, 'k') + last; };
  const std::string value(max_plugin_value_bytes, 'v');
  for (const char last : {'\0', 'b', '\xff'})
    EXPECT_EQ(index.insert(key(last), value), Outcome::ok);
  std::string found = "untouched";
  EXPECT_EQ(index.lookup(key('x'), found), Outcome::not_found);
  EXPECT_EQ(found, "untouched");
  EXPECT_EQ(index.lookup(key('b'), found), Outcome::ok);
  EXPECT_EQ(found, value);
  EXPECT_EQ(index.insert("short", value), Outcome::invalid);
  EXPECT_EQ(index.insert(key('c'), "short"), Outcome::invalid);
  EXPECT_EQ(index.lookup("short", found), Outcome::not_found);
  EXPECT_EQ(index.remove("short"), Outcome::not_found);
  BytesScan scan;
  EXPECT_EQ(index.scan("", 10, scan), 3U);
  EXPECT_EQ(index.scan("k", 2, scan), 2U);
  EXPECT_EQ(index.scan(key('b') + "a", 1, scan), 1U);  // cut to a key that is there and below it
  EXPECT_EQ(scan[0].key, key('\xff'));
  EXPECT_EQ(scan[0].value, value);
  EXPECT_TRUE(index.check_invariants().ok());
}

// What a wrapper claims is passed on, so that a model beside it finds it out.
TEST(Plugin, PassesOnWhatOnlyVerificationCanFind) {
  std::uint64_t value = 0;
  IntegerScan scan;
  const auto false_success = load_lying("false_success");
  EXPECT_EQ(false_success->insert(99, 1), Outcome::ok);
  EXPECT_EQ(false_success->lookup(99, value), Outcome::not_found);
  EXPECT_EQ(false_success->scan(0, 5, scan), 0U);
  const auto wrong_value = load_lying("wrong_value");
  EXPECT_EQ(wrong_value->lookup(3, value), Outcome::ok);
  EXPECT_EQ(value, 31U);
  const auto false_hit = load_lying("false_hit");
  EXPECT_EQ(false_hit->lookup(77, value), Outcome::ok);
  const auto short_scan = load_lying("short_scan");
  EXPECT_EQ(short_scan->scan(1, 5, scan), 4U);
  EXPECT_TRUE(short_scan->check_invariants().ok());
}

// A value that an earlier lookup left in the buffer must not pass for an answer.
TEST(Plugin, DoesNotAnswerAFalseHitWithTheLastValue) {
  const auto index = load_lying("false_hit");
  std::uint64_t value = 0;
  EXPECT_EQ(index->lookup(5, value), Outcome::ok);
  EXPECT_EQ(value, 50U);
  EXPECT_EQ(index->lookup(500, value), Outcome::ok);
  EXPECT_NE(value, 50U);
}

TEST(Plugin, ToleratesAScanThatHandsOutNothing) {
  const auto index = load_lying("null_scan");
  IntegerScan scan;
  EXPECT_EQ(index->scan(1, 5, scan), 5U);  // what it claims
  EXPECT_EQ(scan.size(), 0U);
  EXPECT_EQ(plugin_violations(*index).scans_without_records, 1U);
  EXPECT_TRUE(index->check_invariants().ok());

  const auto without = load_lying("no_scan");
  EXPECT_EQ(without->scan(1, 5, scan), 0U);
  EXPECT_EQ(plugin_violations(*without).scans_of_nothing, 1U);
  EXPECT_TRUE(without->check_invariants().ok());
}

// U1
TEST(Plugin, NoticesWritesOutsideTheValue) {
  for (const char* lie : {"overrun", "long_overrun", "underrun"}) {
    const auto index = load_lying(lie);
    std::uint64_t value = 7;
    EXPECT_EQ(index->lookup(1, value), Outcome::invalid) << lie;
    EXPECT_EQ(index->lookup(1, value), Outcome::invalid) << lie;
    EXPECT_EQ(index->lookup(999, value), Outcome::not_found) << lie;
    EXPECT_EQ(value, 7U);
    EXPECT_EQ(plugin_violations(*index).overruns, 2U) << lie;
    const auto checked = index->check_invariants();
    ASSERT_FALSE(checked.ok());
    EXPECT_THAT(checked.error().what, testing::HasSubstr("2 times (U1)"));
  }
}

// U2
TEST(Plugin, SurvivesWhatTheWrapperThrows) {
  const auto index = load_lying("throw");
  std::uint64_t value = 7;
  EXPECT_EQ(index->lookup(1, value), Outcome::invalid);
  EXPECT_EQ(value, 7U);
  EXPECT_EQ(plugin_violations(*index).exceptions, 1U);
  EXPECT_FALSE(index->check_invariants().ok());
}

// U3
TEST(Plugin, NoticesImpossibleScans) {
  for (const char* lie : {"long_scan", "negative_scan", "unsorted_scan"}) {
    const auto index = load_lying(lie);
    IntegerScan scan;
    EXPECT_LE(index->scan(1, 5, scan), 5U) << lie;
    EXPECT_GE(plugin_violations(*index).impossible_scans, 1U) << lie;
    EXPECT_FALSE(index->check_invariants().ok()) << lie;
  }
}

TEST(Plugin, DoesNotUpsertForEver) {
  const auto index = load_lying("never");
  EXPECT_EQ(index->upsert(1, 1), Outcome::invalid);
}

TEST(Plugin, LeavesZeroesBehindTheOptions) {
  const auto index = load_lying("longer_options");
  EXPECT_EQ(index->size(), 10U);
}

TEST(Plugin, SaysInOneLineWhyAPluginDoesNotLoad) {
  const std::string text = std::filesystem::temp_directory_path() /
                           ("perdure_plugin_" + std::to_string(getpid()) + ".so");
  std::ofstream(text) << "not a shared object\n";
  PluginOptions with_pool = options_for(PERDURE_HONEST_WRAPPER);
  with_pool.pool_path = text;
  PluginOptions long_keys = options_for(PERDURE_HONEST_WRAPPER);
  long_keys.key_bytes = max_plugin_key_bytes + 1;
  struct Case {
    PluginOptions options;
    const char* lie;
    ErrorCode code;
  };
  const std::vector<Case> cases = {
      {options_for("/nowhere/x.so"), "", ErrorCode::not_found},
      {options_for(text.c_str()), "", ErrorCode::unsupported},
      {options_for(PERDURE_EMPTY_WRAPPER), "", ErrorCode::foreign},
      {with_pool, "", ErrorCode::exists},
      {long_keys, "", ErrorCode::usage},
      {options_for(PERDURE_LYING_WRAPPER), "null_tree", ErrorCode::failed},
      {options_for(PERDURE_LYING_WRAPPER), "throw_at_create", ErrorCode::failed},
  };
  for (const Case& bad : cases) {
    setenv("LYING_WRAPPER", bad.lie, 1);
    const auto index = load_plugin<ByteKeys>(bad.options);
    ASSERT_FALSE(index.ok()) << bad.options.library;
    EXPECT_EQ(index.error().code, bad.code) << index.error().line();
    EXPECT_EQ(index.error().line().find('\n'), std::string::npos) << index.error().line();
    EXPECT_FALSE(index.error().remedy.empty());
  }
  std::filesystem::remove(text);
}

}  // namespace
}  // namespace perdure
