#include "driver/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/test_fake_system.h"

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

TEST(Topology, MasksGoBeyondACpuSetOfTheLibrary) {
  const std::vector<unsigned> cpus{0, 63, 64, 1023, 1024, 4095};
  EXPECT_EQ(CpuSet(cpus).cpus(), cpus);
  EXPECT_FALSE(pin_this_thread(100'000));
  const auto here = CpuSet::of_this_thread();
  ASSERT_TRUE(here.has_value());
  EXPECT_FALSE(here->cpus().empty());
  EXPECT_TRUE(here->apply());
  EXPECT_EQ(CpuSet::of_this_thread(), here);
}

class FakeQuota : public FakeSystem {};

TEST_F(FakeQuota, ThreadsAreNoMoreThanAQuotaLetsRun) {
  const auto cores = static_cast<unsigned>(usable_cores().size());
  EXPECT_EQ(cores_to_use(root_), cores);
  write("/proc/self/cgroup", "0::/\n");
  write("/proc/self/mountinfo", "36 35 0:30 / /cg rw - cgroup2 cgroup rw\n");
  write("/cg/cpu.max", "50000 100000\n");
  EXPECT_EQ(cores_to_use(root_), 1U);
  write("/cg/cpu.max", "110000 100000\n");
  EXPECT_EQ(cores_to_use(root_), std::min(cores, 2U));
  write("/cg/cpu.max", "100000000 100000\n");
  EXPECT_EQ(cores_to_use(root_), cores);
}

cpu_set_t cpus_of_this_thread() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

TEST(Topology, ThreadsStartedByAConfinedOneStayWhereItWas) {
  const cpu_set_t before = cpus_of_this_thread();
  const unsigned last = pinning_order(usable_cores()).back();
  cpu_set_t inside;
  cpu_set_t later;
  std::atomic<bool> released = false;
  std::thread started;
  {
    const Confined confined({&last, 1});
    inside = cpus_of_this_thread();
    started = std::thread([&] {
      released.wait(false);
      later = cpus_of_this_thread();
    });
  }
  released = true;
  released.notify_one();
  started.join();
  EXPECT_EQ(CPU_COUNT(&inside), 1);
  EXPECT_TRUE(CPU_ISSET(last, &inside));
  EXPECT_TRUE(CPU_EQUAL(&inside, &later));
  const cpu_set_t after = cpus_of_this_thread();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace perdure::driver
