#include "core/limits.h"

#include <gmock/gmock.h>

#include "core/test_fake_system.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t mib = 1 << 20;

class Limits : public FakeSystem {
 protected:
  Limits() { write("/proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n"); }

  void be_in(const std::string& line, const std::string& mount) {
    write("/proc/self/cgroup", "9:name=systemd:/x\n" + line + "\n");
    write("/proc/self/mountinfo", "22 1 0:5 / /proc rw - proc proc rw\n" + mount + "\n");
  }
  void unify(const std::string& group, const std::string& mounted = "/") {
    be_in("0::" + group, "36 35 0:30 " + mounted + " /cg rw,relatime shared:9 - cgroup2 cgroup rw");
  }
  void separate(const std::string& group, const std::string& mounted = "/") {
    be_in("4:cpu,memory:" + group,
          "35 31 0:29 " + mounted + " /cg rw - cgroup cgroup rw,memory,cpu");
  }
  void write_number(const std::string& path, std::uint64_t number) {
    write(path, std::to_string(number) + "\n");
  }
  void limit(const std::string& folder, std::uint64_t limit_mib, std::uint64_t usage_mib) {
    write_number(folder + "/memory.max", limit_mib * mib);
    write_number(folder + "/memory.current", usage_mib * mib);
  }
};

TEST_F(Limits, WithoutGroupsTheMachineBounds) {
  EXPECT_EQ(memory_room(root_).bytes, 1024 * mib);
  EXPECT_EQ(memory_room(root_).bound, "this machine's memory");
  EXPECT_FALSE(cpu_quota(root_));
  EXPECT_EQ(throttled_periods(root_), 0U);
}

TEST_F(Limits, NothingIsKnownOfASystemThatSaysNothing) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(memory_room(root_).bytes, Room::unknown);
}

TEST_F(Limits, TheLeastOfAllGroupsAroundUsBounds) {
  unify("/a/b");
  limit("/cg/a/b", 900, 100);
  limit("/cg/a", 300, 200);
  write("/cg/memory.max", "max\n");
  EXPECT_EQ(memory_room(root_).bytes, 100 * mib);
  EXPECT_EQ(memory_room(root_).bound, "the control group's limit of 300 MiB (/cg/a/memory.max)");
  limit("/cg/a/b", 150, 120);
  EXPECT_EQ(memory_room(root_).bytes, 30 * mib);
  limit("/cg/a/b", 5000, 0);
  limit("/cg/a", 5000, 0);
  EXPECT_EQ(memory_room(root_).bytes, 1024 * mib);
}

TEST_F(Limits, AGroupOverItsLimitLeavesNothing) {
  unify("/a");
  limit("/cg/a", 100, 101);
  EXPECT_EQ(memory_room(root_).bytes, 0U);
}

TEST_F(Limits, WhatIsHeldBackBeyondBounds) {
  unify("/a");
  limit("/cg/a", 900, 100);
  write_number("/cg/a/memory.high", 200 * mib);
  EXPECT_EQ(memory_room(root_).bytes, 100 * mib);
  EXPECT_THAT(memory_room(root_).bound, HasSubstr("/cg/a/memory.high"));
}

TEST_F(Limits, ReclaimablePageCacheIsFree) {
  unify("/");
  limit("/cg", 300, 250);
  write("/cg/memory.stat", "anon 5\ninactive_file " + std::to_string(200 * mib) + "\nfile 7\n");
  EXPECT_EQ(memory_room(root_).bytes, 250 * mib);
}

TEST_F(Limits, TheFirstVersionBoundsTheSameWay) {
  separate("/docker/abc");
  write_number("/cg/docker/abc/memory.limit_in_bytes", 300 * mib);
  write_number("/cg/docker/abc/memory.usage_in_bytes", 100 * mib);
  write("/cg/docker/abc/memory.stat",
        "inactive_file 1\ntotal_inactive_file " + std::to_string(50 * mib) + "\n");
  write_number("/cg/memory.limit_in_bytes", 9223372036854771712ULL);
  write_number("/cg/memory.usage_in_bytes", 4096 * mib);
  EXPECT_EQ(memory_room(root_).bytes, 250 * mib);
  EXPECT_THAT(memory_room(root_).bound, HasSubstr("/cg/docker/abc/memory.limit_in_bytes"));
}

// A container is shown its own group at the mount, under the host's path or under "/".
TEST_F(Limits, AGroupThatIsMountedByItselfIsFound) {
  separate("/docker/abc", "/docker/abc");
  write_number("/cg/memory.limit_in_bytes", 300 * mib);
  write_number("/cg/memory.usage_in_bytes", 100 * mib);
  EXPECT_EQ(memory_room(root_).bytes, 200 * mib);
  separate("/docker/abc/inner", "/docker/abc");
  write_number("/cg/inner/memory.limit_in_bytes", 200 * mib);
  write_number("/cg/inner/memory.usage_in_bytes", 50 * mib);
  EXPECT_EQ(memory_room(root_).bytes, 150 * mib);
  separate("/other", "/docker/abc");
  EXPECT_EQ(memory_room(root_).bytes, 200 * mib) << "the mounted group bounds all the same";
  separate("/", "/../..");
  EXPECT_EQ(memory_room(root_).bytes, 200 * mib);
}

TEST_F(Limits, SpacesInPathsAreRead) {
  be_in("0::/my group", "36 35 0:30 / /c\\040g rw - cgroup2 cgroup rw");
  limit("/c g/my group", 300, 100);
  EXPECT_EQ(memory_room(root_).bytes, 200 * mib);
}

TEST_F(Limits, TheLeastQuotaCounts) {
  unify("/a/b");
  write("/cg/a/b/cpu.max", "max 100000\n");
  EXPECT_FALSE(cpu_quota(root_));
  write("/cg/a/cpu.max", "150000 100000\n");
  ASSERT_TRUE(cpu_quota(root_));
  EXPECT_DOUBLE_EQ(cpu_quota(root_)->cores, 1.5);
  EXPECT_EQ(cpu_quota(root_)->group, "/cg/a");
  write("/cg/a/b/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(root_)->cores, 0.5);
  write("/cg/a/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 4\n");
  write("/cg/a/b/cpu.stat", "nr_throttled 3\n");
  EXPECT_EQ(throttled_periods(root_), 7U);
}

TEST_F(Limits, TheFirstVersionsQuotaCounts) {
  separate("/a");
  write("/cg/a/cpu.cfs_quota_us", "-1\n");
  write("/cg/a/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cpu_quota(root_));
  write("/cg/a/cpu.cfs_quota_us", "250000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(root_)->cores, 2.5);
}

}  // namespace
}  // namespace perdure
