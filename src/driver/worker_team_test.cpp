#include "driver/worker_team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>

#include "driver/topology.h"

extern "C" int omp_get_thread_num(void);

namespace perdure::driver {
namespace {

TEST(WorkerTeam, EveryThreadRunsEveryJobOnce) {
  WorkerTeam team(4, WorkerTeam::Carrier::threads, {});
  std::atomic<int> runs[4] = {};
  for (int i = 0; i < 10; ++i) team.run([&](unsigned thread) { ++runs[thread]; });
  for (const auto& count : runs) EXPECT_EQ(count.load(), 10);
}

TEST(WorkerTeam, OpenMpNumbersItsThreadsAsWeDo) {
  WorkerTeam team(3, WorkerTeam::Carrier::openmp, {});
  std::atomic<int> runs[3] = {};
  std::atomic<int> wrong{0};
  for (int i = 0; i < 5; ++i)
    team.run([&](unsigned thread) {
      ++runs[thread];
      if (static_cast<unsigned>(omp_get_thread_num()) != thread) ++wrong;
    });
  EXPECT_EQ(wrong.load(), 0);
  for (const auto& count : runs) EXPECT_EQ(count.load(), 5);
}

TEST(WorkerTeam, ThreadsArePinnedInOrder) {
  const auto order = pinning_order(usable_cores());
  for (const auto carrier : {WorkerTeam::Carrier::threads, WorkerTeam::Carrier::openmp}) {
    WorkerTeam team(static_cast<unsigned>(order.size()), carrier, order);
    std::vector<int> cpus(order.size());
    team.run([&](unsigned thread) { cpus[thread] = sched_getcpu(); });
    ASSERT_TRUE(team.pinned());
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(cpus[i], static_cast<int>(order[i]));
  }
}

TEST(WorkerTeam, ACpuThatDoesNotExistIsReported) {
  const std::vector<unsigned> nowhere = {1023};
  WorkerTeam team(1, WorkerTeam::Carrier::threads, nowhere);
  team.run([](unsigned) {});
  EXPECT_FALSE(team.pinned());
}

TEST(Meeting, NobodyLeavesBeforeTheLastHasCome) {
  constexpr unsigned threads = 5;  // more than the cores of a small machine
  Meeting meeting(threads);
  WorkerTeam team(threads, WorkerTeam::Carrier::threads, {});
  std::atomic<unsigned> arrived{0};
  std::atomic<unsigned> early{0};
  unsigned steps = 0;
  team.run([&](unsigned) {
    for (unsigned round = 1; round <= 100; ++round) {
      arrived.fetch_add(1);
      meeting.arrive([&] { ++steps; });
      if (arrived.load() < round * threads) early.fetch_add(1);
      meeting.arrive();
    }
  });
  EXPECT_EQ(early.load(), 0U);
  EXPECT_EQ(steps, 100U);
}

}  // namespace
}  // namespace perdure::driver
