#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/rng.h"
#include "index/lmdb/layered_keys.h"
#include "index/reference/test_on_disk.h"

namespace perdure {
namespace {

class Lmdb : public OnDiskTest {
 protected:
  Lmdb() : OnDiskTest("lmdb") {}
};

TEST_F(Lmdb, GivesTheOutcomesOfAnOrderedIndex) {
  check_integer_outcomes(*create<IntegerKeys>());
  check_bytes_outcomes(*create<ByteKeys>("bytes"));
}

TEST_F(Lmdb, BulkLoadsSortedRecordsOnly) { check_bulk_load(*create<IntegerKeys>()); }

TEST_F(Lmdb, GivesEachSuccessToOneThread) {
  check_exclusive_successes(*create<IntegerKeys>(), 1500,
                            [](unsigned k) { return std::uint64_t{k}; });
}

TEST_F(Lmdb, RecoversWhatAKilledProcessHadAcknowledged) { check_recovery_after_kill(); }
TEST_F(Lmdb, SaysWhatIsWrongWithADirectory) { check_bad_directories("data.mdb"); }
TEST_F(Lmdb, SaysWhenItIsFullAndLosesNothing) { check_full(); }

TEST_F(Lmdb, RefusesATruncatedFile) {
  {
    const auto index = create<IntegerKeys>();
    for (std::uint64_t i = 0; i < 500; ++i) ASSERT_EQ(index->insert(i, i), Outcome::ok);
  }
  std::filesystem::resize_file(path() + "/data.mdb", 3 * 4096);
  const auto recovered = recover<IntegerKeys>();
  ASSERT_FALSE(recovered.ok());
  EXPECT_EQ(recovered.error().code, ErrorCode::truncated) << recovered.error().line();
}

// K1 and K2: keys around every slice's edge, against a model, while layers come and go.
TEST_F(Lmdb, KeepsLongKeysInTheirTrueOrder) {
  using lmdb::slice_bytes;
  const auto index = create<ByteKeys>();
  std::map<std::string, std::string, std::less<>> model;
  Rng rng(7);
  std::vector<std::string> keys;
  for (std::size_t slices = 0; slices <= 4; ++slices)
    for (const std::size_t extra : {0UL, 1UL, 2UL, slice_bytes - 1})
      for (const char fill : {'\0', '\1', 'm', '\xff'})
        for (const char last : {'\0', '\1', '\2', '\xff'}) {
          std::string key(std::min(slices * slice_bytes + extra, max_key_bytes), fill);
          if (!key.empty()) key.back() = last;
          keys.push_back(std::move(key));
        }
  BytesScan scan;
  for (int round = 0; round < 1500; ++round) {
    const std::string& key = keys[rng.below(keys.size())];
    const std::string value = std::to_string(round);
    if (rng.below(5) < 3) {
      const bool added = model.try_emplace(key, value).second;
      ASSERT_EQ(index->insert(key, value), added ? Outcome::ok : Outcome::exists);
    } else {
      ASSERT_EQ(index->remove(key), model.erase(key) > 0 ? Outcome::ok : Outcome::not_found);
    }
    const std::string& from = keys[rng.below(keys.size())];
    auto expected = model.lower_bound(from);
    index->scan(from, 5, scan);
    for (std::size_t i = 0; i < scan.size(); ++i, ++expected) {
      ASSERT_NE(expected, model.end());
      ASSERT_EQ(scan[i], (BytesRecord{expected->first, expected->second})) << "round " << round;
    }
    ASSERT_TRUE(scan.size() == 5 || expected == model.end());
  }
  EXPECT_EQ(index->size(), model.size());
  EXPECT_TRUE(index->check_invariants().ok());
  for (const auto& [key, value] : model) ASSERT_EQ(index->remove(key), Outcome::ok);
  EXPECT_EQ(index->size(), 0U);  // K2, K4: every layer went with its last record
  EXPECT_TRUE(index->check_invariants().ok());
}

// Keys between the slices of others: a scan from one that is absent enters the right layer.
TEST_F(Lmdb, ScansFromAnAbsentLongKey) {
  const auto index = create<ByteKeys>();
  const std::string base(1200, 'k');
  for (const char* tail : {"a", "c", "e"}) ASSERT_EQ(index->insert(base + tail, tail), Outcome::ok);
  ASSERT_EQ(index->insert("z", "z"), Outcome::ok);
  BytesScan scan;
  EXPECT_EQ(index->scan(base + "b", 10, scan), 3U);
  EXPECT_EQ(scan[0].value, "c");
  EXPECT_EQ(index->scan(base + "f", 10, scan), 1U);
  EXPECT_EQ(scan[0].value, "z");
  EXPECT_EQ(index->scan(std::string(501, 'k'), 10, scan), 4U);
  EXPECT_EQ(index->scan(std::string(2048, 'k'), 10, scan), 1U);
}

}  // namespace
}  // namespace perdure
