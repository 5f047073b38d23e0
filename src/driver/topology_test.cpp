#include "driver/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perdure::driver {
namespace {

using ::testing::ElementsAre;

TEST(Topology, PhysicalCoresComeBeforeTheirSiblings) {
  // Two sockets of two cores; the kernel numbers siblings n and n + 4.
  std::vector<Core> cores;
  for (unsigned cpu = 0; cpu < 8; ++cpu) cores.push_back({cpu, cpu % 4 / 2, cpu % 2});
  EXPECT_THAT(pinning_order(cores), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Topology, SiblingsWithNeighbouringNumbersAreTakenApart) {
  std::vector<Core> cores;
  for (unsigned cpu = 0; cpu < 6; ++cpu) cores.push_back({cpu, 0, cpu / 2});
  EXPECT_THAT(pinning_order(cores), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(Topology, AMaskThatLeavesOnlySiblingsStillGivesPhysicalCoresFirst) {
  const std::vector<Core> cores = {{5, 0, 1}, {4, 0, 0}, {1, 0, 1}};
  EXPECT_THAT(pinning_order(cores), ElementsAre(4, 1, 5));
}

TEST(Topology, ThisMachineHasCores) {
  EXPECT_FALSE(usable_cores().empty());
  EXPECT_EQ(pinning_order(usable_cores()).size(), usable_cores().size());
  EXPECT_FALSE(usable_cores("/nonexistent").empty());
}

}  // namespace
}  // namespace perdure::driver
