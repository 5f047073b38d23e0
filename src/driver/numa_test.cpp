#include "driver/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "driver/topology.h"
#include "pool/mapping.h"

namespace perdure::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FakeNodes : public ::testing::Test {
 protected:
  FakeNodes()
      : root_(std::filesystem::temp_directory_path() /
              ("perdure_nodes_" + std::to_string(getpid()))) {}
  ~FakeNodes() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.string() + "/devices/system/node" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  std::filesystem::path root_;
  std::vector<unsigned> cpus_ = pinning_order(usable_cores());
};

TEST(Numa, ListsOfCpusAreReadAsTheKernelWritesThem) {
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list("\n"), IsEmpty());
  EXPECT_THAT(parse_cpu_list("a-b"), IsEmpty());
}

TEST_F(FakeNodes, OneNodeHasNothingApart) {
  EXPECT_FALSE(nodes_apart(root_.string()).has_value());
  write("/node0/cpulist", "0-" + std::to_string(CPU_SETSIZE - 1));
  write("/has_memory", "0");
  EXPECT_FALSE(nodes_apart(root_.string()).has_value());
}

TEST_F(FakeNodes, ThreadsRunOnTheLastNodeAndMemoryIsOfTheFirst) {
  write("/node0/cpulist", "");
  write("/node1/cpulist", "0-" + std::to_string(CPU_SETSIZE - 1));
  write("/has_memory", "0-1");
  const auto apart = nodes_apart(root_.string());
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(apart->memory, 0U);
  EXPECT_EQ(apart->threads.number, 1U);
  EXPECT_EQ(apart->threads.cpus, cpus_);
}

// A node of memory alone, as CXL devices make one.
TEST_F(FakeNodes, MemoryMayLieWhereNoCpuIs) {
  write("/node0/cpulist", "0-" + std::to_string(CPU_SETSIZE - 1));
  write("/node1/cpulist", "");
  write("/has_memory", "1");
  const auto apart = nodes_apart(root_.string());
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(apart->memory, 1U);
  EXPECT_EQ(apart->threads.number, 0U);
}

TEST(Numa, NewPagesComeFromTheNodeThatWasNamed) {
  const unsigned node = numa_nodes().front().number;
  bool taken = false;
  std::optional<unsigned> found;
  std::thread([&] {  // the choice ends with its thread
    taken = take_memory_from(node);
    const Result<Mapping> memory = Mapping::anonymous(4096, 0);
    ASSERT_TRUE(memory.ok());
    *memory.value().base() = std::byte{1};
    found = node_of_page(memory.value().base());
  })
      .join();
  EXPECT_FALSE(take_memory_from(64));
  // A container may forbid both calls.
  EXPECT_EQ(found.value_or(node), node);
  EXPECT_TRUE(taken || !found.has_value());
}

}  // namespace
}  // namespace perdure::driver
