#include "driver/pool_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "index/reference/engine_directory.h"

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

constexpr std::uint64_t mebibyte = 1 << 20;

TEST(PoolSetup, TheSizeShrinksToTheRoomThatThereIs) {
  const BenchConfig config = persistent(1'000'000);
  const std::uint64_t wanted = estimated_pool_bytes(config);
  EXPECT_EQ(choose_pool_bytes(config, {}).value(), wanted);
  EXPECT_EQ(choose_pool_bytes(config, {2 * wanted, "a"}).value(), wanted);
  const Room tight{wanted - 2 * mebibyte, "a"};
  EXPECT_LT(choose_pool_bytes(config, tight).value(), tight.bytes);
  EXPECT_GE(choose_pool_bytes(config, tight).value(), tight.bytes / 10 * 8);
}

TEST(PoolSetup, WhatDoesNotFitIsRefusedWithTheLimitAndTheRemedies) {
  BenchConfig config = persistent(10'000'000);
  config.pool_path = "/somewhere/p";
  const Room room{100 * mebibyte, "the control group's limit of 300 MiB (/cg/memory.max)"};
  const auto refused = choose_pool_bytes(config, room);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_space);
  for (const char* part : {"/somewhere/p", "100 MiB are free", "limit of 300 MiB (/cg/memory.max)",
                           "--records", "--pool-bytes", "--pool"})
    EXPECT_THAT(refused.error().line(), ::testing::HasSubstr(part));
  config.pool_bytes = 101 * mebibyte;
  EXPECT_FALSE(choose_pool_bytes(config, room).ok()) << "a size that was asked for never shrinks";
  config.pool_bytes = 100 * mebibyte;
  EXPECT_EQ(choose_pool_bytes(config, room).value(), config.pool_bytes);
}

TEST(PoolSetup, ASimulatedPoolNeverDependsOnTheRoom) {
  BenchConfig config = persistent(1'000'000);
  config.simulated.emplace();
  config.scratch_pool = true;
  const std::uint64_t wanted = estimated_pool_bytes(config);
  EXPECT_EQ(choose_pool_bytes(config, {2 * wanted, "a"}).value(), wanted);
  EXPECT_FALSE(choose_pool_bytes(config, {wanted - 1, "a"}).ok());
}

TEST(PoolSetup, AnIndexInMemoryNeedsMemoryForItsRecords) {
  BenchConfig config = persistent(10'000'000);
  config.index.index_class = IndexClass::in_memory;
  EXPECT_TRUE(check_memory(config, {}).ok());
  EXPECT_TRUE(check_memory(config, {1024 * mebibyte, "a"}).ok());
  EXPECT_FALSE(check_memory(config, {100 * mebibyte, "a"}).ok());
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

TEST_F(DirectorySite, WhatAReuseRefusedSurvivesForce) {
  fs::create_directory(config_.pool_path + "/photos");
  std::ofstream(config_.pool_path + "/diary.txt") << "precious";
  for (const char* engine : {"lmdb", "rocksdb"}) {
    const auto opened = EngineDirectory::open(config_.pool_path, engine);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, ErrorCode::foreign);
    EXPECT_FALSE(fs::exists(config_.pool_path + "/perdure.lock")) << "reuse creates nothing";
    EXPECT_EQ(PoolSite::prepare(config_).error().code, ErrorCode::exists);
  }
  std::ofstream(config_.pool_path + "/perdure.lock").flush();  // as earlier versions left it
  EXPECT_EQ(PoolSite::prepare(config_).error().code, ErrorCode::exists);
  EXPECT_TRUE(fs::exists(config_.pool_path + "/diary.txt"));
  EXPECT_TRUE(fs::exists(config_.pool_path + "/photos"));
}

TEST_F(DirectorySite, AnOldMarkNeverLetsItsDirectoryBeEmptied) {
  for (const char* file : {"data.mdb", "lock.mdb", "perdure.lock"})
    std::ofstream(config_.pool_path + "/" + file).flush();
  const auto site = PoolSite::prepare(config_);
  ASSERT_FALSE(site.ok());
  EXPECT_EQ(site.error().code, ErrorCode::exists);
  EXPECT_NE(site.error().what.find("earlier version"), std::string::npos);
  EXPECT_TRUE(fs::exists(config_.pool_path + "/data.mdb"));
}

// Made by a run, then used by its owner for other things, too.
TEST_F(DirectorySite, ForceEmptiesADirectoryOfOursWithNothingElseInIt) {
  for (const char* stranger :
       {"notes", "db/0diary.sst", "db/more/000001.sst", "db/000001.sst.tex"}) {
    {
      auto directory = EngineDirectory::create(config_.pool_path, "rocksdb");
      ASSERT_TRUE(directory.ok()) << directory.error().line();
      ASSERT_TRUE(directory->keep().ok());
    }
    fs::create_directories(config_.pool_path + "/db/more");
    std::ofstream(config_.pool_path + "/db/CURRENT") << "x";
    std::ofstream(config_.pool_path + "/db/000012.sst") << "x";
    std::ofstream(config_.pool_path + "/" + stranger) << "precious";
    const auto kept = PoolSite::prepare(config_);
    ASSERT_FALSE(kept.ok()) << stranger;
    EXPECT_EQ(kept.error().code, ErrorCode::exists);
    EXPECT_TRUE(fs::exists(config_.pool_path + "/" + stranger));
    EXPECT_TRUE(fs::exists(config_.pool_path + "/db/CURRENT")) << "judged before anything goes";
    fs::remove(config_.pool_path + "/" + stranger);
    fs::remove(config_.pool_path + "/db/more");
    config_.force = false;
    EXPECT_EQ(PoolSite::prepare(config_).error().code, ErrorCode::exists);
    config_.force = true;
    EXPECT_TRUE(PoolSite::prepare(config_).ok());
    EXPECT_TRUE(fs::is_empty(config_.pool_path));
  }
}

TEST_F(DirectorySite, ALinkInsideIsAStranger) {
  {
    auto directory = EngineDirectory::create(config_.pool_path, "lmdb");
    ASSERT_TRUE(directory.ok());
    ASSERT_TRUE(directory->keep().ok());
  }
  fs::create_symlink("/etc", config_.pool_path + "/data.mdb");
  EXPECT_EQ(PoolSite::prepare(config_).error().code, ErrorCode::exists);
  fs::remove(config_.pool_path + "/data.mdb");
}

TEST_F(DirectorySite, AFileIsReplacedOnlyWhenItIsOurs) {
  fs::remove(config_.pool_path);
  std::ofstream(config_.pool_path) << "precious";
  EXPECT_EQ(PoolSite::prepare(config_).error().code, ErrorCode::exists);
  EXPECT_TRUE(fs::exists(config_.pool_path));
  std::ofstream(config_.pool_path, std::ios::trunc).flush();
  EXPECT_TRUE(PoolSite::prepare(config_).ok());
  EXPECT_FALSE(fs::exists(config_.pool_path));
}

TEST_F(DirectorySite, ADirectoryInUseSurvivesForce) {
  {
    auto directory = EngineDirectory::create(config_.pool_path, "lmdb");
    ASSERT_TRUE(directory.ok());
    ASSERT_TRUE(directory->keep().ok());
    EXPECT_EQ(PoolSite::prepare(config_).error().code, ErrorCode::busy);
  }
  EXPECT_TRUE(PoolSite::prepare(config_).ok());
  EXPECT_FALSE(fs::exists(config_.pool_path + "/perdure.lock"));
}

TEST_F(DirectorySite, WhatARunMadeGoesUnlessKept) {
  for (const bool was_there : {false, true})
    for (const bool keep : {false, true}) {
      fs::remove_all(config_.pool_path);
      if (was_there) fs::create_directory(config_.pool_path);
      {
        auto site = PoolSite::prepare(config_);
        ASSERT_TRUE(site.ok());
        auto directory = EngineDirectory::create(config_.pool_path, "lmdb");
        ASSERT_TRUE(directory.ok());
        ASSERT_TRUE(directory->keep().ok());
        std::ofstream(config_.pool_path + "/data.mdb") << "x";
        if (keep) (*site)->keep();
      }
      EXPECT_EQ(fs::exists(config_.pool_path), keep || was_there);
      EXPECT_EQ(fs::exists(config_.pool_path + "/data.mdb"), keep);
    }
}

TEST_F(DirectorySite, WhatSomebodyPutThereMeanwhileStays) {
  fs::remove(config_.pool_path);
  {
    auto site = PoolSite::prepare(config_);
    ASSERT_TRUE(site.ok());
    fs::create_directory(config_.pool_path);
    std::ofstream(config_.pool_path + "/diary.txt") << "precious";
  }
  EXPECT_TRUE(fs::exists(config_.pool_path + "/diary.txt"));
}

// A wrapper makes its pool itself, and what it made is not to be known again.
TEST_F(DirectorySite, WhatStandsInAPluginsWayStays) {
  config_.plugin = "wrapper.so";
  EXPECT_TRUE(PoolSite::prepare(config_).ok()) << "a wrapper may be given a directory";
  ASSERT_TRUE(fs::remove(config_.pool_path)) << "which stays, and is empty";
  std::ofstream(config_.pool_path) << "precious";
  const auto site = PoolSite::prepare(config_);
  ASSERT_FALSE(site.ok());
  EXPECT_EQ(site.error().code, ErrorCode::exists);
  EXPECT_EQ(site.error().remedy.find("--force"), std::string::npos);
  EXPECT_TRUE(fs::exists(config_.pool_path));
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
  EXPECT_EQ(PoolSite::prepare(config_).error().code, ErrorCode::exists) << "not ours";
  EXPECT_EQ(present(), 1U);
  std::ofstream(files_.back(), std::ios::trunc).flush();
  EXPECT_TRUE(PoolSite::prepare(config_).ok());
}

// What another run has put in the place of a file is not this run's to remove.
TEST_F(PoolsOfNodes, OnlyItsOwnFilesGoWhenARunFails) {
  {
    auto site = PoolSite::prepare(config_);
    ASSERT_TRUE(site.ok());
    fs::remove(files_.front());
    std::ofstream(files_.front()) << "precious";
  }
  EXPECT_EQ(present(), 1U);
  EXPECT_EQ(fs::file_size(files_.front()), 8U);
}

TEST_F(PoolsOfNodes, AVolatilePoolTakesNothingAway) {
  config_.options.set(node_pools_option().name, 0);
  ASSERT_TRUE(PoolSite::prepare(config_).ok());
  {
    auto site = PoolSite::prepare(config_);
    (*site)->keep();
  }
  config_.heap = HeapKind::memkind;
  config_.force = true;
  { ASSERT_TRUE(PoolSite::prepare(config_).ok()); }
  EXPECT_TRUE(fs::exists(files_.front()));
}

TEST_F(PoolsOfNodes, AScratchPoolLeavesNoFile) {
  config_.scratch_pool = true;
  const auto site = PoolSite::prepare(config_);
  ASSERT_TRUE(site.ok());
  EXPECT_EQ(present(), 0U);
}

}  // namespace
}  // namespace perdure::driver
