#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "index/reference/test_on_disk.h"

namespace perdure {
namespace {

class RocksDb : public OnDiskTest {
 protected:
  RocksDb() : OnDiskTest("rocksdb") {}
};

TEST_F(RocksDb, GivesTheOutcomesOfAnOrderedIndex) {
  check_integer_outcomes(*create<IntegerKeys>());
  check_bytes_outcomes(*create<ByteKeys>("bytes"));
}

TEST_F(RocksDb, BulkLoadsSortedRecordsOnly) { check_bulk_load(*create<IntegerKeys>()); }

// R1
TEST_F(RocksDb, GivesEachSuccessToOneThread) {
  check_exclusive_successes(*create<IntegerKeys>(), 5000,
                            [](unsigned k) { return std::uint64_t{k}; });
}

TEST_F(RocksDb, RecoversWhatAKilledProcessHadAcknowledged) { check_recovery_after_kill(); }
TEST_F(RocksDb, SaysWhatIsWrongWithADirectory) { check_bad_directories("db/CURRENT"); }
TEST_F(RocksDb, SaysWhenItIsFullAndLosesNothing) { check_full(); }

TEST_F(RocksDb, ForgetsABulkLoadThatWasCutShort) {
  { ASSERT_NE(create<IntegerKeys>(), nullptr); }
  std::ofstream(path() + "/bulk.sst") << "half a file";
  auto recovered = recover<IntegerKeys>();
  ASSERT_TRUE(recovered.ok()) << recovered.error().line();
  EXPECT_EQ(recovered.value()->size(), 0U);
  EXPECT_FALSE(std::filesystem::exists(path() + "/bulk.sst"));
  check_bulk_load(*recovered.value());
}

TEST_F(RocksDb, RefusesACorruptManifest) {
  { ASSERT_NE(create<IntegerKeys>(), nullptr); }
  std::ofstream(path() + "/db/CURRENT", std::ios::trunc) << "nonsense";
  const auto recovered = recover<IntegerKeys>();
  ASSERT_FALSE(recovered.ok());
  EXPECT_EQ(recovered.error().code, ErrorCode::corrupt) << recovered.error().line();
}

}  // namespace
}  // namespace perdure
