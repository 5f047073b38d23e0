// Schedules: priorities, change points, and the bounded depth-first search.
#include "crash/schedule.h"

#include <gtest/gtest.h>

#include <set>

#include "crash/search.h"
#include "crash/toys/toys.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

using Runs = std::vector<unsigned>;

/// Who ran, in the order of taking over, when 3 threads do two operations each.
Runs runs_of(const Schedule& schedule, Steps* steps = nullptr) {
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  Case what;
  what.subject = *find_subject("toy:missing_flush:repaired");
  what.subject.pool_bytes = std::size_t{256} << 10;
  what.program.threads = 3;
  what.schedule = schedule;
  for (std::uint8_t i = 0; i < 6; ++i)
    what.program.operations.push_back(
        {Action::insert, static_cast<std::uint8_t>(i % 3), i, 0, std::uint64_t{i} + 1});
  Workspace workspace(what.subject.pool_bytes);
  const Verdict verdict = record(what, workspace);
  if (steps != nullptr) *steps = verdict.steps;
  Runs runs;
  for (const Event& event : verdict.run.trace)
    if (event.kind == Event::Kind::run) runs.push_back(event.thread);
  runs.erase(runs.begin());  // creation
  return runs;
}

TEST(ScheduleTest, WithoutPreemptionsThreadsRunOneAfterTheOther) {
  EXPECT_EQ(runs_of({}), (Runs{0, 1, 2}));
  EXPECT_EQ(runs_of({1, {}}), (Runs{1, 2, 0}));
}

TEST(ScheduleTest, PrioritiesDecideWhoFollows) {
  EXPECT_EQ(runs_of({2, {}, {2, 0, 1}}), (Runs{2, 0, 1}));
  EXPECT_EQ(runs_of({1, {}, {1, 2, 0}}), (Runs{1, 2, 0}));
}

TEST(ScheduleTest, AChangePointPutsTheRunningThreadBehindAllOthers) {
  // At the first meeting thread 2 has done nothing that others wait for: it comes last.
  EXPECT_EQ(runs_of({2, {{1, Preemption::demote}}, {2, 0, 1}}), (Runs{2, 0, 1, 2}));
}

TEST(ScheduleTest, DrawnSchedulesHaveTheDepthAskedFor) {
  Steps steps;
  steps.count = 1000;
  steps.flushes = {100, 200, 300};
  Rng rng(1, 1);
  std::set<std::uint8_t> firsts;
  for (unsigned i = 0; i < 200; ++i) {
    const Schedule schedule =
        draw_schedule(steps, 3, 3, i % 2 == 0 ? Near::flushes : Near::anything, rng);
    firsts.insert(schedule.first);
    ASSERT_EQ(schedule.order.size(), 3U);
    EXPECT_EQ(schedule.first, schedule.order.front());
    EXPECT_EQ(std::set<std::uint8_t>(schedule.order.begin(), schedule.order.end()).size(), 3U);
    ASSERT_EQ(schedule.preemptions.size(), 2U);
    EXPECT_LE(schedule.preemptions[0].step, schedule.preemptions[1].step);
    for (const Preemption& each : schedule.preemptions)
      if (i % 2 == 0) {
        EXPECT_TRUE(each.step == 101 || each.step == 201 || each.step == 301);
      }
  }
  EXPECT_EQ(firsts.size(), 3U);
}

TEST(ScheduleTest, PausesAreMostlyOneAndNowAndThenMany) {
  Rng rng(1, 1);
  unsigned one = 0;
  unsigned some = 0;
  unsigned many = 0;
  for (unsigned i = 0; i < 1000; ++i) {
    const std::uint16_t pauses = draw_pauses(rng);
    ASSERT_LE(pauses, most_pauses_in_a_row);
    ++(pauses == 1 ? one : pauses >= 16 && pauses <= 64 ? some : many);
  }
  EXPECT_GT(one, 600U);
  EXPECT_GT(some, 100U);
  EXPECT_GT(many, 10U);
  EXPECT_LT(many, 60U);
}

TEST(ScheduleTest, ChangePointsAreDrawnFromLocksToo) {
  Steps steps;
  steps.count = 1000;
  steps.flushes = {100};
  steps.locks = {500, 501};
  Rng rng(1, 1);
  for (unsigned i = 0; i < 50; ++i)
    for (const Preemption& each : draw_schedule(steps, 2, 3, Near::locks, rng).preemptions)
      EXPECT_TRUE(each.step == 501 || each.step == 502);
}

TEST(DepthFirstTest, VisitsEveryScheduleWithinItsBoundOnce) {
  Steps steps;
  steps.count = 100;
  steps.flushes = {10, 20};
  Rng rng(1, 1);
  DepthFirst search(steps, 2, 2, rng);
  std::set<std::string> seen;
  bool extends = false;
  std::vector<Preemption> last;
  for (unsigned i = 0; !search.done(); ++i) {
    const Schedule schedule = search.next();
    EXPECT_LE(schedule.preemptions.size(), 2U);
    std::string name = std::to_string(schedule.first);
    for (const Preemption& each : schedule.preemptions)
      name += " " + std::to_string(each.step) + ":" + std::to_string(each.thread);
    EXPECT_TRUE(seen.insert(name).second) << name;
    extends = extends || (!last.empty() && schedule.preemptions.size() > last.size());
    last = schedule.preemptions;
    search.ran(schedule, steps);
  }
  // 2 first threads, of which the undisturbed run has had one; 2 places for one preemption; a
  // second one behind the first place.
  EXPECT_EQ(seen.size(), 2U * (1U + 2U + 1U) - 1U);
  EXPECT_TRUE(extends) << "not depth-first";
}

}  // namespace
}  // namespace perdure::crash
