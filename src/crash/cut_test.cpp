// Programs that are cut, recover and go on; and what a recovery makes of what several have left.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "crash/report.h"
#include "crash/test_plan.h"
#include "crash/ways.h"
#include "pm/pm.h"
#include "pool/slab_heap.h"

namespace perdure::crash {
namespace {

/// A program that recovers from a cut and goes on: what is wrong only behind a recovery shows.
class CutTest : public testing::TestWithParam<std::tuple<const char*, KeyKind, unsigned>> {};

TEST_P(CutTest, ASoundIndexGoesOnBehindACut) {
  const auto [name, kind, threads] = GetParam();
  const IndexInfo& info = **IndexRegistry::find(name);
  Workspace workspace(std::size_t{1} << 20);
  Plan plan = small_plan(info, threads);
  plan.most_states = 8'000;
  plan.key_kind = kind;
  plan.cuts = 4;
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  const Summary summary = explore_many(plan, workspace, [](const Summary&) {});
  EXPECT_FALSE(summary.violation.has_value())
      << summary.violation->oracle << ": " << summary.violation->what;
  EXPECT_GE(summary.coverage.states, 8'000U);
}

INSTANTIATE_TEST_SUITE_P(, CutTest,
                         testing::Combine(testing::Values("lbtree", "roart"),
                                          testing::Values(KeyKind::integer, KeyKind::bytes),
                                          testing::Values(1U, 2U)));

TEST(CutRunTest, ARunBehindACutIsTheSameAgain) {
  Case what;
  what.subject.info = *IndexRegistry::find("roart");
  what.subject.options = small_options(*what.subject.info);
  Plan plan = small_plan(*what.subject.info, 1);
  what.program = generate(program_plan(plan, 1));
  std::set<std::uint64_t> digests;
  for (what.cut = 2; what.cut < 12; ++what.cut) {
    Workspace first(std::size_t{1} << 20);
    Workspace second(std::size_t{1} << 20);
    const Verdict verdict = record(what, first);
    EXPECT_FALSE(verdict.violation.has_value()) << verdict.violation->what;
    EXPECT_EQ(verdict.trace_digest, record(what, second).trace_digest);
    digests.insert(verdict.trace_digest);
  }
  EXPECT_GT(digests.size(), 5U) << "cuts differ";
}

/// One thread inserts and removes a key, then another one inserts it: the first one's intents are
/// both still there, and its word is not flushed.
TEST(EngineTest, AnOldIntentTakesNothingFromWhoHasTheKeySince) {
  Case what;
  what.subject.info = *IndexRegistry::find("engine");
  what.subject.options = small_options(*what.subject.info);
  what.program = {.key_kind = KeyKind::bytes,
                  .threads = 2,
                  .keys = 4,
                  .preload = {},
                  .operations = {{.action = Action::insert, .thread = 1, .stamp = 1},
                                 {.action = Action::remove, .thread = 1, .stamp = 2},
                                 {.action = Action::insert, .thread = 0, .stamp = 3},
                                 {.action = Action::lookup, .thread = 0}}};
  what.schedule = {.first = 1, .order = {1, 0}};
  Workspace workspace(std::size_t{1} << 20);
  for (what.domain = Domain::adr;; what.domain = Domain::eadr) {
    const Verdict verdict = explore(what, workspace, [] { return false; });
    EXPECT_FALSE(verdict.violation.has_value()) << verdict.violation->what;
    EXPECT_GE(verdict.coverage.states, 100U);
    if (what.domain == Domain::eadr) break;
  }
}

/// Where the first cut is depends on all of the case: also on which points are explored.
TEST(CutRunTest, AReplayFileCutsInTheSamePlaces) {
  Case what;
  what.subject.info = *IndexRegistry::find("roart");
  what.subject.options = small_options(*what.subject.info);
  what.program = generate(program_plan(small_plan(*what.subject.info, 2), 4));
  ASSERT_EQ(what.program.preload.front().action, Action::load);
  Workspace workspace(std::size_t{1} << 20);
  unsigned elsewhere = 0;
  for (what.cut = 2; what.cut < 12; ++what.cut) {
    what.only_threads = true;
    const Verdict verdict = record(what, workspace);
    const auto replay = read_replay(write_replay(what, verdict).dump(), "test");
    ASSERT_TRUE(replay.ok()) << replay.error().line();
    EXPECT_EQ(record(replay->what, workspace).trace_digest, verdict.trace_digest);
    what.only_threads = false;
    elsewhere += record(what, workspace).trace_digest != verdict.trace_digest ? 1U : 0U;
  }
  EXPECT_GT(elsewhere, 0U);
}

/// What found no room has left a record behind; what comes next has its place, its id and version.
TEST(EngineTest, AFullStoreBelievesNoIntentBesideTheRecordOfARefusedWrite) {
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  for (const unsigned room : {1U, 2U}) {
    Plan plan = small_plan(**IndexRegistry::find("engine"), 1);
    plan.key_kind = KeyKind::bytes;
    plan.keys = 16;
    plan.preload = 8;
    plan.operations = 40;
    plan.seed = 100;
    plan.most_states = 20'000;
    plan.subject.pool_bytes =
        least_pool_bytes(plan.subject, plan.key_kind) + room * SlabHeap::chunk_bytes;
    Workspace workspace(plan.subject.pool_bytes);
    const Summary summary = explore_many(plan, workspace, [](const Summary&) {});
    EXPECT_FALSE(summary.violation.has_value())
        << room << ": " << summary.violation->oracle << ": " << summary.violation->what;
  }
}

}  // namespace
}  // namespace perdure::crash
