// Batches under the explorer: every registered index, toys whose batches are wrong, replay files.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "crash/report.h"
#include "crash/search.h"
#include "crash/shrink.h"
#include "crash/test_plan.h"
#include "crash/toys/toys.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

Plan plan_of_batches(const IndexInfo& info, unsigned threads) {
  Plan plan = small_plan(info, threads);
  plan.batch = 6;
  return plan;
}

Summary explore_batches(const Plan& plan, Workspace& workspace) {
  if (plan.subject.info->needs_eadr)
    pm::configure(pm::Durability::eadr);
  else
    EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  return explore_many(plan, workspace, [](const Summary&) {});
}

TEST(BatchTest, EveryIndexKeepsWhatABatchHasReturned) {
  Workspace workspace(std::size_t{1} << 20);
  for (const IndexInfo& info : IndexRegistry::all()) {
    if (!info.recovers(KeyKind::integer) || info.index_class != IndexClass::persistent) continue;
    for (const unsigned threads : {1U, 2U}) {
      Plan plan = plan_of_batches(info, threads);
      if (info.needs_eadr) plan.domain = Domain::eadr;
      plan.seconds = 1;
      const Summary summary = explore_batches(plan, workspace);
      EXPECT_GT(summary.coverage.states, 0U) << info.name;
      EXPECT_FALSE(summary.violation.has_value())
          << info.name << ", " << threads << " threads: " << summary.violation->oracle << ": "
          << summary.violation->what;
    }
  }
}

TEST(BatchTest, AFindingIsWrittenAndReadAgain) {
  constexpr std::size_t toy_bytes = std::size_t{256} << 10;
  Workspace workspace(toy_bytes);
  Plan plan = plan_of_batches(toys()[static_cast<std::size_t>(Defect::batch_end_unflushed)], 1);
  plan.subject.pool_bytes = toy_bytes;
  plan.most_states = 60'000;
  const Summary summary = explore_batches(plan, workspace);
  ASSERT_TRUE(summary.violation.has_value());
  Verdict verdict;
  verdict.violation = summary.violation;
  const Case small = shrink(*summary.failed, verdict, workspace, 60);
  const auto again = read_replay(write_replay(small, verdict).dump(), "file");
  ASSERT_TRUE(again.ok()) << again.error().line();
  EXPECT_EQ(again->what.program.operations, small.program.operations);
  EXPECT_TRUE(std::ranges::any_of(small.program.operations,
                                  [](const Operation& each) { return each.batch != 0; }));
  EXPECT_TRUE(try_state(again->what, workspace, again->event, again->lines).violation.has_value());
}

TEST(BatchTest, AProgramHasBatchesOfOneThreadAndKind) {
  const Program program = generate({.threads = 2, .operations = 200, .seed = 3, .batch = 6});
  std::map<std::uint16_t, std::vector<Operation>> batches;
  for (const Operation& each : program.operations)
    if (each.batch != 0) batches[each.batch].push_back(each);
  std::size_t longest = 0;
  for (const auto& [number, batch] : batches) {
    longest = std::max(longest, batch.size());
    for (const Operation& each : batch) {
      EXPECT_EQ(each.thread, batch.front().thread);
      EXPECT_TRUE(are_one_call(batch.front(), each));
      EXPECT_TRUE(has_key(each.action));
    }
  }
  EXPECT_EQ(longest, 6U);
  EXPECT_FALSE(are_one_call(Operation{}, Operation{}));
}

}  // namespace
}  // namespace perdure::crash
