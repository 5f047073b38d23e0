#include "index/reference/engine_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace perdure {
namespace {

namespace fs = std::filesystem;

class EngineDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    base_ = fs::temp_directory_path() / (std::string("perdure_directory_") + test->name());
    fs::remove_all(base_);
    fs::create_directory(base_);
  }
  void TearDown() override { fs::remove_all(base_); }
  [[nodiscard]] std::string path() const { return base_ / "index"; }

  fs::path base_;
};

TEST_F(EngineDirectoryTest, LeavesNothingBehindWhenCreationFails) {
  {
    auto directory = EngineDirectory::create(path());
    ASSERT_TRUE(directory.ok()) << directory.error().line();
    std::ofstream(directory->file("half-made")) << "x";
  }
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(EngineDirectoryTest, KeepsWhatSucceeded) {
  {
    auto directory = EngineDirectory::create(path() + "/");
    ASSERT_TRUE(directory.ok()) << directory.error().line();
    ASSERT_TRUE(directory->keep().ok());
  }
  EXPECT_TRUE(fs::exists(path()));
  EXPECT_TRUE(EngineDirectory::open(path()).ok());
}

TEST_F(EngineDirectoryTest, NeverOverwrites) {
  std::ofstream(path()) << "precious";
  const auto over_file = EngineDirectory::create(path());
  ASSERT_FALSE(over_file.ok());
  EXPECT_EQ(over_file.error().code, ErrorCode::exists);
  EXPECT_EQ(fs::file_size(path()), 8U);
  const auto over_directory = EngineDirectory::create(base_);
  ASSERT_FALSE(over_directory.ok());
  EXPECT_EQ(over_directory.error().code, ErrorCode::exists);
  EXPECT_TRUE(fs::exists(path()));
}

TEST_F(EngineDirectoryTest, RefusesASecondHolder) {
  auto directory = EngineDirectory::create(path());
  ASSERT_TRUE(directory.ok());
  ASSERT_TRUE(directory->keep().ok());
  const auto second = EngineDirectory::open(path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_TRUE(fs::exists(path()));
}

TEST_F(EngineDirectoryTest, SaysWhatIsMissing) {
  const auto absent = EngineDirectory::open(path());
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::not_found);
  const auto orphan = EngineDirectory::create(path() + "/deeper");
  ASSERT_FALSE(orphan.ok());
  EXPECT_EQ(orphan.error().code, ErrorCode::not_found);
  const auto nameless = EngineDirectory::create("");
  ASSERT_FALSE(nameless.ok());
  EXPECT_EQ(nameless.error().code, ErrorCode::usage);
  std::ofstream(path()) << "x";
  const auto file = EngineDirectory::open(path());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::foreign);
}

}  // namespace
}  // namespace perdure
