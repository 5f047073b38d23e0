#include "driver/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/test_fake_system.h"

namespace perdure::driver {
namespace {

class FakeMachine : public FakeSystem {};

TEST_F(FakeMachine, SettingsAndDevicesAreRead) {
  write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Xeon 6240\nflags\t\t: sse4_2 clwb rtm\n");
  write("/proc/meminfo", "MemTotal:       1048576 kB\n");
  write("/proc/sys/kernel/perf_event_paranoid", "-1\n");
  write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [advise] never\n");
  write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  write("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
  write("/sys/devices/system/node/node0/x", "");
  write("/sys/devices/system/node/node1/x", "");
  write("/sys/devices/system/node/node1/cpulist", "\n");
  write("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  134217728 kB\n");
  write("/dev/dax0.0", "");
  write("/sys/bus/dax/devices/dax0.0/size", "1073741824\n");
  write("/dev/pmem1", "");
  write("/sys/class/block/pmem1/size", "2048\n");
  write("/sys/bus/nd/devices/region0/size", "4096\n");
  write("/sys/bus/cxl/devices/mem0/ram/size", "0x10000000\n");
  write("/proc/self/cgroup", "0::/a\n");
  write("/proc/self/mountinfo", "36 35 0:30 / /cg rw - cgroup2 cgroup rw\n");
  write("/cg/a/cpu.max", "50000 100000\n");
  write("/cg/a/memory.max", "3145728\n");
  write("/cg/a/memory.current", "1048576\n");
  const auto facts = facts_of(read_environment(root_));
  EXPECT_EQ(facts["cpu_quota"]["cores"], 0.5);
  EXPECT_EQ(facts["cpu_quota"]["group"], "/cg/a");
  EXPECT_EQ(facts["memory_room"]["bytes"], 2 << 20);
  EXPECT_EQ(facts["cpu"], "Xeon 6240");
  EXPECT_EQ(facts["memory_bytes"], 1ULL << 30);
  EXPECT_EQ(facts["perf_event_paranoid"], -1);
  EXPECT_EQ(facts["huge_pages"], "anonymous madvise, shared memory advise");
  EXPECT_EQ(facts["governor"], "powersave");
  EXPECT_EQ(facts["turbo"], "on");
  EXPECT_EQ(facts["numa_nodes"], 2);
  EXPECT_THAT(facts["cpu_features"], ::testing::ElementsAre("sse4_2", "clwb", "rtm"));
  ASSERT_EQ(facts["pm_devices"].size(), 3U);
  EXPECT_EQ(facts["pm_devices"][0]["bytes"], 1ULL << 30);
  EXPECT_EQ(facts["pm_devices"][1]["bytes"], 1ULL << 20);
  ASSERT_EQ(facts["cxl_devices"].size(), 1U);
  EXPECT_EQ(facts["cxl_devices"][0]["bytes"], 1ULL << 28);
  ASSERT_EQ(facts["memory_nodes"].size(), 1U);
  EXPECT_EQ(facts["memory_nodes"][0]["node"], 1);
  EXPECT_EQ(facts["memory_nodes"][0]["bytes"], 128ULL << 30);
  const auto warnings = warnings_of(read_environment(root_));
  EXPECT_THAT(warnings, ::testing::Contains(::testing::HasSubstr("powersave")));
  EXPECT_THAT(warnings, ::testing::Contains(::testing::HasSubstr("turbo is on")));
}

TEST_F(FakeMachine, AnEmptySystemIsUnknownAndNoCrash) {
  const Environment environment = read_environment(root_);
  EXPECT_EQ(environment.cpu, "unknown");
  EXPECT_EQ(environment.governor, "unknown");
  EXPECT_EQ(environment.turbo, "unknown");
  EXPECT_TRUE(environment.devices.empty());
  for (const char* name : {"perf_event_paranoid", "cpu_quota", "memory_room"})
    EXPECT_TRUE(facts_of(environment)[name].is_null()) << name;
}

TEST(Environment, TheFingerprintIsStable) {
  EXPECT_EQ(read_environment().host_fingerprint, read_environment().host_fingerprint);
  EXPECT_EQ(read_environment().host_fingerprint.size(), 16U);
}

}  // namespace
}  // namespace perdure::driver
