#include "index/reference/engine_directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace perdure {
namespace {

namespace fs = std::filesystem;

class EngineDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    base_ = fs::temp_directory_path() / ("perdure_directory_" + std::to_string(getpid()));
    fs::remove_all(base_);
    fs::create_directory(base_);
  }
  void TearDown() override { fs::remove_all(base_); }
  [[nodiscard]] std::string path() const { return base_ / "index"; }

  fs::path base_;
};

TEST_F(EngineDirectoryTest, LeavesNothingBehindWhenCreationFails) {
  {
    auto directory = EngineDirectory::create(path(), "lmdb");
    ASSERT_TRUE(directory.ok()) << directory.error().line();
    std::ofstream(directory->file("data.mdb")) << "x";
  }
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(EngineDirectoryTest, KeepsWhatSucceeded) {
  {
    auto directory = EngineDirectory::create(path() + "/", "lmdb");
    ASSERT_TRUE(directory.ok()) << directory.error().line();
    ASSERT_TRUE(directory->keep().ok());
  }
  EXPECT_TRUE(fs::exists(path()));
  EXPECT_TRUE(EngineDirectory::open(path(), "lmdb").ok());
}

TEST_F(EngineDirectoryTest, NeverOverwrites) {
  std::ofstream(path()) << "precious";
  const auto over_file = EngineDirectory::create(path(), "lmdb");
  ASSERT_FALSE(over_file.ok());
  EXPECT_EQ(over_file.error().code, ErrorCode::exists);
  EXPECT_EQ(fs::file_size(path()), 8U);
  const auto over_directory = EngineDirectory::create(base_, "lmdb");
  ASSERT_FALSE(over_directory.ok());
  EXPECT_EQ(over_directory.error().code, ErrorCode::exists);
  EXPECT_TRUE(fs::exists(path()));
}

TEST_F(EngineDirectoryTest, RefusesASecondHolder) {
  auto directory = EngineDirectory::create(path(), "lmdb");
  ASSERT_TRUE(directory.ok());
  ASSERT_TRUE(directory->keep().ok());
  const auto second = EngineDirectory::open(path(), "lmdb");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_TRUE(fs::exists(path()));
}

// F1, and the mark of another engine.
TEST_F(EngineDirectoryTest, OpensWhatItMadeAndCreatesNothing) {
  {
    auto directory = EngineDirectory::create(path(), "lmdb");
    ASSERT_TRUE(directory.ok() && directory->keep().ok());
  }
  const auto other = EngineDirectory::open(path(), "rocksdb");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::foreign);
  EXPECT_EQ(other.error().remedy, "give IndexRegistry::find lmdb");
  const auto foreign = EngineDirectory::open(base_, "lmdb");
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code, ErrorCode::foreign);
  EXPECT_FALSE(fs::exists(base_ / "perdure.lock"));
  std::ofstream(path() + "/perdure.lock", std::ios::trunc).flush();  // of an earlier version
  EXPECT_TRUE(EngineDirectory::open(path(), "lmdb").ok());
  EXPECT_EQ(fs::file_size(path() + "/perdure.lock"), 0U) << "no mark is written by an opening";
  std::ofstream(path() + "/perdure.lock") << "a letter";
  EXPECT_EQ(EngineDirectory::open(path(), "lmdb").error().code, ErrorCode::foreign);
}

TEST_F(EngineDirectoryTest, LeavesAnEmptyDirectoryThatWasThereWhenCreationFails) {
  fs::create_directory(path());
  { ASSERT_TRUE(EngineDirectory::create(path(), "lmdb").ok()); }
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(EngineDirectoryTest, LeavesWhatItsEngineDoesNotWriteWhenCreationFails) {
  {
    auto directory = EngineDirectory::create(path(), "lmdb");
    ASSERT_TRUE(directory.ok());
    std::ofstream(directory->file("diary.txt")) << "precious";
  }
  EXPECT_TRUE(fs::exists(path() + "/diary.txt"));
}

TEST_F(EngineDirectoryTest, SaysWhatIsMissing) {
  const auto absent = EngineDirectory::open(path(), "lmdb");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::not_found);
  const auto orphan = EngineDirectory::create(path() + "/deeper", "lmdb");
  ASSERT_FALSE(orphan.ok());
  EXPECT_EQ(orphan.error().code, ErrorCode::not_found);
  const auto nameless = EngineDirectory::create("", "lmdb");
  ASSERT_FALSE(nameless.ok());
  EXPECT_EQ(nameless.error().code, ErrorCode::usage);
  std::ofstream(path()) << "x";
  const auto file = EngineDirectory::open(path(), "lmdb");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::foreign);
}

}  // namespace
}  // namespace perdure
