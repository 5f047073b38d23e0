// The explorer against queues whose defects are known, and against their sound twins.
#include "crash/toys/queue_toys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "crash/mutation.h"
#include "crash/report.h"
#include "crash/shrink.h"
#include "crash/toys/toys.h"
#include "crash/ways.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

using testing::HasSubstr;

constexpr std::size_t queue_pool_bytes = std::size_t{256} << 10;

const QueueInfo& queue_toy_of(QueueDefect defect, bool repaired = false) {
  return queue_toys()[static_cast<std::size_t>(defect) + (repaired ? queue_defects : 0)];
}

Plan queue_plan(const QueueInfo& info, unsigned threads, std::uint64_t states) {
  Plan plan;
  plan.subject.queue = &info;
  plan.subject.pool_bytes = queue_pool_bytes;
  plan.threads = threads;
  plan.chosen.threads = true;
  plan.most_states = states;
  plan.seconds = 120;
  return plan;
}

Summary explore_queue(const Plan& plan, Workspaces& workspaces) {
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  return explore_in_all_ways(plan, workspaces, [](const Summary&) {});
}

class QueueToyTest : public testing::TestWithParam<std::size_t> {
 protected:
  [[nodiscard]] QueueDefect defect() const { return static_cast<QueueDefect>(GetParam()); }

  void find() {
    const Summary summary =
        explore_queue(queue_plan(queue_toy_of(defect()), threads_of(defect()), 400'000), all_);
    ASSERT_TRUE(summary.violation.has_value()) << summary.coverage.states << " states";
    verdict_.violation = summary.violation;
    small_ = shrink(*summary.failed, verdict_, workspace(*summary.failed), 60);
  }
  Workspace& workspace(const Case& what) { return all_.of(what.subject.pool_bytes); }

  Workspaces all_{HeapKind::slab};
  Case small_;
  Verdict verdict_;
};

TEST_P(QueueToyTest, ThePlantedDefectIsFoundAndShownInThreeOperations) {
  find();
  ASSERT_TRUE(verdict_.violation.has_value());
  EXPECT_LE(called_operations(verdict_), 1U + 3U) << verdict_.violation->what;  // and the creation
  const bool waits = defect() == QueueDefect::blocking_wait;
  EXPECT_EQ(verdict_.violation->oracle, waits ? Oracle::progress : Oracle::linearizability);
}

TEST_P(QueueToyTest, ItsReplayFileShowsItAgain) {
  find();
  ASSERT_TRUE(verdict_.violation.has_value());
  const auto replay = read_replay(write_replay(small_, verdict_).dump(), "test");
  ASSERT_TRUE(replay.ok()) << replay.error().line();
  const Verdict again = try_state(replay->what, workspace(small_), replay->event, replay->lines);
  EXPECT_EQ(again.trace_digest, replay->trace_digest);
  ASSERT_TRUE(again.violation.has_value());
  EXPECT_EQ(again.violation->what, verdict_.violation->what);
}

INSTANTIATE_TEST_SUITE_P(Toys, QueueToyTest, testing::Range<std::size_t>(0, queue_defects),
                         [](const auto& info) {
                           return std::string(name_of(static_cast<QueueDefect>(info.param)));
                         });

/// The two sound queues: one blocking, one lock-free.
class SoundQueueTest : public testing::TestWithParam<std::tuple<QueueDefect, unsigned, Domain>> {};

TEST_P(SoundQueueTest, IsNotObjectedTo) {
  const auto [defect, threads, domain] = GetParam();
  Plan plan = queue_plan(queue_toy_of(defect, true), threads, 25'000);
  plan.domain = domain;
  Workspaces workspaces(HeapKind::slab);
  if (domain == Domain::eadr) pm::configure(pm::Durability::eadr);
  const Summary summary = domain == Domain::eadr
                              ? explore_in_all_ways(plan, workspaces, [](const Summary&) {})
                              : explore_queue(plan, workspaces);
  EXPECT_FALSE(summary.violation.has_value())
      << summary.violation->oracle << ": " << summary.violation->what;
  EXPECT_GT(summary.coverage.states, 10'000U);
  EXPECT_EQ(summary.coverage.given_up, 0U);
  const bool stops =
      threads > 1 && queue_toy_of(defect, true).progress == perdure::Progress::lock_free;
  EXPECT_EQ(summary.stops > 0, stops);
}

INSTANTIATE_TEST_SUITE_P(
    Queues, SoundQueueTest,
    testing::Combine(testing::Values(QueueDefect::holes, QueueDefect::blocking_wait),
                     testing::Values(1U, 2U, 3U, 4U), testing::Values(Domain::adr, Domain::eadr)),
    [](const auto& info) {
      return std::string(name_of(std::get<0>(info.param))) + "_" +
             std::to_string(std::get<1>(info.param)) + "_" + name_of(std::get<2>(info.param));
    });

TEST(ProgressTest, AnIndexUnderALockIsNotLockFree) {
  IndexInfo claims = toys()[defects];  // a repaired twin
  claims.progress = perdure::Progress::lock_free;
  Plan plan;
  plan.subject.info = &claims;
  plan.subject.options = small_options(claims);
  plan.subject.pool_bytes = queue_pool_bytes;
  plan.threads = 2;
  plan.chosen.threads = true;
  plan.most_states = 200'000;
  plan.seconds = 120;
  Workspaces workspaces(HeapKind::slab);
  const Summary summary = explore_queue(plan, workspaces);
  ASSERT_TRUE(summary.violation.has_value());
  EXPECT_EQ(summary.violation->oracle, Oracle::progress);
  Verdict verdict;
  verdict.violation = summary.violation;
  Workspace& workspace = workspaces.of(summary.failed->subject.pool_bytes);
  const Case small = shrink(*summary.failed, verdict, workspace, 60);
  EXPECT_LE(called_operations(verdict), 3U);
  Places places;
  const Explanation why = explain(small, verdict, workspace, places, 5);
  EXPECT_EQ(why.kind, Explanation::Kind::waits);
  EXPECT_THAT(why.text, HasSubstr("toys/table.cpp"));
}

TEST(ProgressTest, AStoppedThreadTakesNoFurtherStep) {
  Workspace workspace(queue_pool_bytes);
  Case what;
  what.subject = *find_subject("toy:queue_blocking_wait:repaired");
  what.subject.pool_bytes = queue_pool_bytes;
  what.program.threads = 2;
  what.program.operations = {{Action::push, 0, 0, 0, 1}, {Action::push, 1, 0, 0, 2}};
  what.schedule = with_stop({}, 1);
  const Verdict verdict = record(what, workspace);
  EXPECT_FALSE(verdict.violation.has_value());
  ASSERT_TRUE(verdict.run.stopped.has_value());
  EXPECT_EQ(verdict.run.stopped->thread, 0);
  EXPECT_FALSE(verdict.run.hung);
  EXPECT_FALSE(verdict.run.answers[1].returned);
  EXPECT_TRUE(verdict.run.answers[2].returned);
}

TEST(QueueMutationTest, AFlushThatAQueueNeedsIsMissed) {
  ASSERT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  Plan plan = queue_plan(queue_toy_of(QueueDefect::holes, true), 1, 20'000);
  Workspace workspace(queue_pool_bytes);
  Places places;
  const auto results = mutate(plan, workspace, places, "in push", [](const MutantResult&) {});
  ASSERT_FALSE(results.empty());
  for (const MutantResult& result : results)
    EXPECT_TRUE(result.killed || !result.equivalent.empty()) << show(result);
}

TEST(NoReplacingTest, ProgramsOfAnIndexWithoutUpdatesHaveNone) {
  ProgramPlan plan{.threads = 2, .operations = 200, .replaces = false};
  for (plan.seed = 1; plan.seed < 16; ++plan.seed) {
    Program program = generate(plan);
    program.preload = program.operations;
    for (const Program& each : {program, around(program, 20, 60, 2, false)})
      for (const Operation& operation : each.operations)
        EXPECT_EQ(operation.action, without_replacing(operation.action));
  }
}

}  // namespace
}  // namespace perdure::crash
