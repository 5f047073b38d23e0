#include "driver/pool_setup.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace perdure::driver {
namespace {

namespace fs = std::filesystem;

BenchConfig persistent(std::uint64_t records) {
  BenchConfig config;
  config.index.name = "any";
  config.workload.records = records;
  config.workload.limit_operations(1000);
  return config;
}

TEST(PoolSetup, TheSizeGrowsWithRecordsInsertsAndKeyLength) {
  BenchConfig config = persistent(1'000'000);
  const std::uint64_t plain = estimated_pool_bytes(config);
  EXPECT_GT(plain, 1'000'000U * 40);
  config.workload.mix = workload::parse_mix("insert=1").value();
  config.workload.limit_operations(1'000'000);
  EXPECT_GT(estimated_pool_bytes(config), plain + 3 * 1'000'000U * 40);  // three repetitions
  config.workload.keys = workload::parse_keys("random:2048").value();
  EXPECT_GT(estimated_pool_bytes(config), 4 * 1'000'000ULL * 2056);
}

TEST(PoolSetup, MoreThanTheFileSystemHoldsIsRefusedBeforeAnythingIsCreated) {
  BenchConfig config = persistent(1ULL << 45);
  config.pool_path = fs::temp_directory_path() / ("perdure_huge_" + std::to_string(getpid()));
  const auto site = PoolSite::prepare(config);
  ASSERT_FALSE(site.ok());
  EXPECT_EQ(site.error().code, ErrorCode::out_of_space);
  EXPECT_FALSE(fs::exists(config.pool_path));
}

class DirectorySite : public ::testing::Test {
 protected:
  DirectorySite() : config_(persistent(1000)) {
    config_.index.index_class = IndexClass::on_disk;
    config_.pool_path =
        fs::temp_directory_path() / ("perdure_directory_" + std::to_string(getpid()));
    config_.force = true;
    fs::create_directory(config_.pool_path);
  }
  ~DirectorySite() override { fs::remove_all(config_.pool_path); }

  BenchConfig config_;
};

TEST_F(DirectorySite, ADirectoryThatIsNotOursSurvivesForce) {
  std::ofstream(config_.pool_path + "/thesis.tex") << "precious";
  const auto site = PoolSite::prepare(config_);
  ASSERT_FALSE(site.ok());
  EXPECT_EQ(site.error().code, ErrorCode::exists);
  EXPECT_TRUE(fs::exists(config_.pool_path + "/thesis.tex"));
}

TEST_F(DirectorySite, ADirectoryInUseSurvivesForce) {
  const std::string lock = config_.pool_path + "/perdure.lock";
  const int file = ::open(lock.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  const auto site = PoolSite::prepare(config_);
  ASSERT_FALSE(site.ok());
  EXPECT_EQ(site.error().code, ErrorCode::busy);
  ::close(file);
  EXPECT_TRUE(PoolSite::prepare(config_).ok());
  EXPECT_FALSE(fs::exists(lock));
}

TEST_F(DirectorySite, WhatARunMadeGoesUnlessKept) {
  fs::remove(config_.pool_path);
  for (const bool keep : {false, true}) {
    {
      auto site = PoolSite::prepare(config_);
      ASSERT_TRUE(site.ok());
      fs::create_directory(config_.pool_path);
      if (keep) (*site)->keep();
    }
    EXPECT_EQ(fs::exists(config_.pool_path), keep);
  }
}

/// A run with two pools on each node of this machine.
class PoolsOfNodes : public ::testing::Test {
 protected:
  PoolsOfNodes() : config_(persistent(1000)) {
    config_.index.index_class = IndexClass::persistent;
    config_.options.set(node_pools_option().name, 2);
    config_.huge_pages = false;
    config_.pool_path = fs::temp_directory_path() / ("perdure_nodes_" + std::to_string(getpid()));
    for (unsigned n = 0; n < 2 * pool_nodes(config_).size(); ++n)
      files_.push_back(Pool::part_path(config_.pool_path, n));
  }
  ~PoolsOfNodes() override {
    for (const std::string& file : files_) fs::remove(file);
  }
  [[nodiscard]] std::size_t present() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(files_, [](const std::string& file) { return fs::exists(file); }));
  }

  BenchConfig config_;
  std::vector<std::string> files_;
};

TEST_F(PoolsOfNodes, AllFilesComeAndGoTogether) {
  ASSERT_GE(files_.size(), 2U);
  for (const bool keep : {false, true}) {
    {
      auto site = PoolSite::prepare(config_);
      ASSERT_TRUE(site.ok()) << site.error().line();
      EXPECT_EQ((*site)->pool()->parts(), files_.size());
      EXPECT_EQ((*site)->bytes(), (*site)->pool()->bytes());
      EXPECT_EQ(present(), files_.size());
      if (keep) (*site)->keep();
    }
    EXPECT_EQ(present(), keep ? files_.size() : 0U);
  }
  config_.reuse = true;
  EXPECT_TRUE(PoolSite::prepare(config_).ok());
  config_.options.set(node_pools_option().name, 0);
  EXPECT_EQ(PoolSite::prepare(config_).error().code, ErrorCode::foreign);
  EXPECT_EQ(present(), files_.size());
}

TEST_F(PoolsOfNodes, AFileInAnyPlaceIsKeptWithoutForce) {
  std::ofstream(files_.back()) << "precious";
  const auto site = PoolSite::prepare(config_);
  ASSERT_FALSE(site.ok());
  EXPECT_EQ(site.error().code, ErrorCode::exists);
  EXPECT_EQ(site.error().where, files_.back());
  EXPECT_EQ(present(), 1U);
  config_.force = true;
  EXPECT_TRUE(PoolSite::prepare(config_).ok());
}

TEST_F(PoolsOfNodes, AScratchPoolLeavesNoFile) {
  config_.scratch_pool = true;
  const auto site = PoolSite::prepare(config_);
  ASSERT_TRUE(site.ok());
  EXPECT_EQ(present(), 0U);
}

}  // namespace
}  // namespace perdure::driver
