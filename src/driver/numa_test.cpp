#include "driver/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/testing/fake_system.h"
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
