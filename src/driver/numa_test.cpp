#include "driver/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "core/test_fake_system.h"
#include "driver/topology.h"
#include "pool/mapping.h"

namespace perdure::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FakeNodes : public FakeSystem {
 protected:
  void write_node(const std::string& path, const std::string& text) {
    write("/devices/system/node" + path, text + "\n");
  }

  std::vector<unsigned> cpus_ = pinning_order(usable_cores());
};

TEST(Numa, ListsOfCpusAreReadAsTheKernelWritesThem) {
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list("\n"), IsEmpty());
  EXPECT_THAT(parse_cpu_list("a-b"), IsEmpty());
}

TEST_F(FakeNodes, OneNodeHasNothingApart) {
  EXPECT_FALSE(nodes_apart(root_.string()).has_value());
  write_node("/node0/cpulist", "0-" + std::to_string(CPU_SETSIZE - 1));
  write_node("/has_memory", "0");
  EXPECT_FALSE(nodes_apart(root_.string()).has_value());
}

TEST_F(FakeNodes, ThreadsRunOnTheLastNodeAndMemoryIsOfTheFirst) {
  write_node("/node0/cpulist", "");
  write_node("/node1/cpulist", "0-" + std::to_string(CPU_SETSIZE - 1));
  write_node("/has_memory", "0-1");
  const auto apart = nodes_apart(root_.string());
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(apart->memory, 0U);
  EXPECT_EQ(apart->threads.number, 1U);
  EXPECT_EQ(apart->threads.cpus, cpus_);
}

// A node of memory alone, as CXL devices make one.
TEST_F(FakeNodes, MemoryMayLieWhereNoCpuIs) {
  write_node("/node0/cpulist", "0-" + std::to_string(CPU_SETSIZE - 1));
  write_node("/node1/cpulist", "");
  write_node("/has_memory", "1");
  const auto apart = nodes_apart(root_.string());
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(apart->memory, 1U);
  EXPECT_EQ(apart->threads.number, 0U);
}

TEST_F(FakeNodes, AMachineOfOneSocketWithCxlMemoryHasThatApart) {
  write_node("/node0/cpulist", "0-" + std::to_string(CPU_SETSIZE - 1));
  write_node("/node0/meminfo", "Node 0 MemTotal: 4096 kB");
  write_node("/node2/cpulist", "");
  write_node("/node2/meminfo", "Node 2 MemTotal:  134217728 kB");
  write_node("/node3/cpulist", "");
  write_node("/node3/meminfo", "Node 3 MemTotal: 0 kB");
  write_node("/has_memory", "0,2");
  const auto nodes = numa_nodes(root_.string());
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes.front().cpus, cpus_);
  EXPECT_THAT(memory_nodes(root_.string()), ElementsAre(MemoryNode{2, 128ULL << 30}));
  const auto apart = nodes_apart(root_.string());
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(apart->memory, 2U);
  EXPECT_EQ(apart->threads.number, 0U);
}

// A node whose CPUs this process may not use is no node of memory alone.
TEST_F(FakeNodes, CpusOutsideTheMaskAreCpus) {
  write_node("/node70/cpulist", "100000-100003");
  write_node("/node70/meminfo", "Node 70 MemTotal: 4096 kB");
  EXPECT_THAT(memory_nodes(root_.string()), IsEmpty());
  write_node("/node70/cpulist", "0-" + std::to_string(CPU_SETSIZE - 1));
  EXPECT_EQ(numa_nodes(root_.string()).front().number, 70U);
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
  EXPECT_FALSE(take_memory_from(1024));
  // A container may forbid both calls.
  EXPECT_EQ(found.value_or(node), node);
  EXPECT_TRUE(taken || !found.has_value());
}

}  // namespace
}  // namespace perdure::driver
