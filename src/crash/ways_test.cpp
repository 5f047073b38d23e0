// The ways to look: what each makes of a plan, and what the caller has chosen.
#include "crash/ways.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "crash/growth.h"
#include "pool/slab_heap.h"

namespace perdure::crash {
namespace {

Plan plan_of(const char* index, unsigned threads) {
  Plan plan;
  plan.subject.info = *IndexRegistry::find(index);
  plan.subject.options = small_options(*plan.subject.info);
  plan.threads = threads;
  return plan;
}

std::vector<Plan> all_plans(const Plan& plan) {
  std::vector<Plan> plans;
  for (Planner::Planned& each : Planner(plan).all()) plans.push_back(std::move(each.plan));
  return plans;
}

bool any(const std::vector<Plan>& plans, const std::function<bool(const Plan&)>& what) {
  return std::ranges::any_of(plans, what);
}

TEST(WaysTest, ADefaultExplorationHasThemAll) {
  const Plan plan = plan_of("fptree", 1);
  const std::vector<Plan> plans = all_plans(plan);
  EXPECT_TRUE(any(plans, [](const Plan& each) { return each.cuts > 0; }));
  EXPECT_TRUE(any(plans, [](const Plan& each) { return each.cuts > 0 && each.reuse; }));
  EXPECT_TRUE(any(plans, [](const Plan& each) { return each.keys == 600; }));
  EXPECT_TRUE(any(plans, [](const Plan& each) { return each.keys == 3000; }));
  EXPECT_TRUE(any(plans, [](const Plan& each) { return each.shape == Shape::growing; }));
  EXPECT_TRUE(any(
      plans, [](const Plan& each) { return each.threads == 2 && each.shape == Shape::crowded; }));
  EXPECT_TRUE(any(plans, [](const Plan& each) {
    return each.threads == 6 && each.subject.pool_bytes > 128 * SlabHeap::chunk_bytes;
  }));
  EXPECT_TRUE(any(plans, [&](const Plan& each) {
    return each.subject.pool_bytes == least_pool_bytes(plan.subject, KeyKind::integer);
  }));
  std::set<std::uint64_t> entries;
  for (const Plan& each : plans) entries.insert(each.subject.options.get("inner_entries"));
  EXPECT_EQ(entries, (std::set<std::uint64_t>{3, 4, 128})) << "the least, a small and the default";
}

TEST(WaysTest, WhatIsChosenStays) {
  Plan plan = plan_of("fptree", 2);
  plan.keys = 40;
  plan.preload = 7;
  plan.operations = 9;
  plan.subject.options.set("inner_entries", 8);
  plan.chosen = {.threads = true,
                 .keys = true,
                 .preload = true,
                 .operations = true,
                 .pool = true,
                 .options = {"inner_entries"}};
  const std::vector<Plan> plans = all_plans(plan);
  EXPECT_GE(plans.size(), 4U);
  for (const Plan& each : plans) {
    EXPECT_EQ(each.threads, 2U);
    EXPECT_EQ(each.keys, 40U);
    EXPECT_EQ(each.preload, 7U);
    EXPECT_EQ(each.operations, 9U);
    EXPECT_EQ(each.subject.pool_bytes, plan.subject.pool_bytes);
    EXPECT_EQ(each.subject.options.get("inner_entries"), 8U);
  }
}

TEST(WaysTest, OneThreadThatIsChosenStaysAlone) {
  Plan plan = plan_of("lbtree", 1);
  plan.chosen.threads = true;
  for (const Plan& each : all_plans(plan)) EXPECT_EQ(each.threads, 1U);
}

TEST(WaysTest, EveryWayHasItsShareOfAShortBudget) {
  Plan plan = plan_of("lbtree", 1);
  plan.most_states = 60'000;
  Workspaces workspaces(HeapKind::slab);
  const Summary summary = explore_in_all_ways(plan, workspaces, [](const Summary&) {});
  EXPECT_FALSE(summary.violation.has_value()) << summary.violation->what;
  EXPECT_GE(summary.programs, all_plans(plan).size());
}

/// A structure's first growth comes at a number of records that no small program reaches.
TEST(GrowthTest, OperationsBeginShortlyBeforeOneThatDoesMoreThanAnyBefore) {
  Plan plan = plan_of("lbtree", 1);
  plan.keys = 600;
  plan.operations = 16;
  plan.subject.options.set("inner_entries", 15);
  Workspace workspace(plan.subject.pool_bytes);
  std::set<std::size_t> begins;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::size_t events = 0;
    const Program program = draw_growth(plan, seed, workspace, events);
    begins.insert(program.preload.size());
    Case what{plan.subject, program, {}, plan.domain, plan.bounds, {}};
    const Verdict verdict = record(what, workspace);
    ASSERT_FALSE(verdict.violation.has_value()) << verdict.violation->what;
    // Some insertion among the first operations leaves a longer trace than all of the preload.
    std::size_t called = 0;
    std::size_t longest_before = 0;
    std::size_t longest_after = 0;
    for (std::size_t i = 0; i < verdict.run.trace.size(); ++i) {
      const Event& event = verdict.run.trace[i];
      if (event.kind == Event::Kind::call) called = i;
      if (event.kind != Event::Kind::ret || event.at == 0) continue;
      std::size_t& longest = event.at <= program.preload.size() ? longest_before : longest_after;
      longest = std::max(longest, i - called);
    }
    if (!program.preload.empty()) {
      EXPECT_GT(longest_after, longest_before) << "seed " << seed;
    }
  }
  EXPECT_GE(begins.size(), 4U) << "not always the same growth";
  EXPECT_GT(*begins.rbegin(), 60U) << "an inner node of 15 entries splits";
}

TEST(CrowdTest, AllThreadsInsertTheKeysOfOneRun) {
  ProgramPlan plan{.threads = 3, .operations = 60, .keys = 200, .preload = 100, .crowded = true};
  for (plan.seed = 1; plan.seed < 40; ++plan.seed) {
    const Program program = generate(plan);
    std::set<unsigned> threads;
    std::set<std::uint16_t> inserted;
    for (const Operation& each : program.operations) {
      threads.insert(each.thread);
      if (each.action != Action::insert) continue;
      EXPECT_TRUE(inserted.insert(each.key).second);
    }
    for (const Operation& each : program.preload) EXPECT_FALSE(inserted.contains(each.key));
    EXPECT_EQ(threads.size(), 3U);
    EXPECT_GE(inserted.size(), 29U);
    EXPECT_LE(*inserted.rbegin() - *inserted.begin(), 60);
  }
}

}  // namespace
}  // namespace perdure::crash
