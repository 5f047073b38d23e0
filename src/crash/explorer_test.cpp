// The explorer against toys whose defects are known, and against every registered index.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "crash/report.h"
#include "crash/shrink.h"
#include "crash/test_plan.h"
#include "crash/toys/toys.h"
#include "crash/ways.h"
#include "pm/pm.h"
#include "pool/slab_heap.h"

namespace perdure::crash {
namespace {

/// Toys are tiny; trees need spans of several size classes.
constexpr std::size_t toy_bytes = std::size_t{256} << 10;

Plan plan_for(const IndexInfo& info, unsigned threads, std::uint64_t states) {
  Plan plan = small_plan(info, threads);
  plan.most_states = states;
  return plan;
}

Summary run(const Plan& plan, Workspace& workspace) {
  if (plan.subject.info->needs_eadr)
    pm::configure(pm::Durability::eadr);
  else
    EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  return explore_many(plan, workspace, [](const Summary&) {});
}

/// As the command line does by default.
Summary run_in_all_ways(const Plan& plan, Workspaces& workspaces) {
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  return explore_in_all_ways(plan, workspaces, [](const Summary&) {});
}

class ToyTest : public testing::TestWithParam<std::size_t> {
 protected:
  Workspaces workspaces_{HeapKind::slab};
  Workspace& workspace_ = workspaces_.of(toy_bytes);
  [[nodiscard]] Defect defect() const { return static_cast<Defect>(GetParam()); }
  [[nodiscard]] Plan plan(bool repaired) const {
    Plan made = plan_for(toys()[GetParam() + (repaired ? defects : 0)], threads_of(defect()),
                         repaired ? 12'000 : 60'000);
    made.subject.pool_bytes = toy_bytes;
    made.transactions = is_elided(defect());
    made.batch = batch_of(defect());
    made.chosen.threads = true;
    return made;
  }
};

TEST_P(ToyTest, ThePlantedDefectIsFound) {
  const Summary summary = run_in_all_ways(plan(false), workspaces_);
  EXPECT_TRUE(summary.violation.has_value()) << summary.coverage.states << " states";
}

TEST_P(ToyTest, TheRepairedTwinIsNotObjectedTo) {
  const Summary summary = run_in_all_ways(plan(true), workspaces_);
  EXPECT_FALSE(summary.violation.has_value())
      << summary.violation->oracle << ": " << summary.violation->what;
  EXPECT_GT(summary.coverage.states, 1000U);
}

// What is usually the product's is left to recovery, which chooses a line's content as it reads.
TEST_P(ToyTest, ContentsChosenLateSayTheSame) {
  Plan sound = plan(true);
  sound.most_states /= 4;
  Plan broken = plan(false);
  sound.bounds.product = broken.bounds.product = 0;
  const Summary summary = run_in_all_ways(sound, workspaces_);
  EXPECT_FALSE(summary.violation.has_value())
      << summary.violation->oracle << ": " << summary.violation->what;
  EXPECT_TRUE(run_in_all_ways(broken, workspaces_).violation.has_value());
}

INSTANTIATE_TEST_SUITE_P(Toys, ToyTest, testing::Range<std::size_t>(0, defects),
                         [](const auto& info) {
                           return std::string(name_of(static_cast<Defect>(info.param)));
                         });

TEST(ElisionTest, WhatIsWrongInATransactionIsSoundUnderTheLockAlone) {
  Workspace workspace(toy_bytes);
  Plan plan = plan_for(toys()[static_cast<std::size_t>(Defect::elided_publish)], 1, 5'000);
  plan.subject.pool_bytes = toy_bytes;
  const Summary summary = run(plan, workspace);
  EXPECT_FALSE(summary.violation.has_value()) << summary.violation->what;
}

class FindingTest : public testing::Test {
 protected:
  Workspaces workspaces_{HeapKind::slab};
  Workspace& workspace_ = workspaces_.of(toy_bytes);
  Places places_;
  Case small_;
  Verdict verdict_;

  void find(Defect defect) {
    Plan plan = plan_for(toys()[static_cast<std::size_t>(defect)], threads_of(defect), 200'000);
    plan.subject.pool_bytes = toy_bytes;
    const Summary summary = run(plan, workspace_);
    ASSERT_TRUE(summary.violation.has_value());
    verdict_.violation = summary.violation;
    small_ = shrink(*summary.failed, verdict_, workspace_, 60);
  }
  void find_in_all_ways(Defect defect) {
    Plan plan = plan_for(toys()[static_cast<std::size_t>(defect)], threads_of(defect), 200'000);
    plan.subject.pool_bytes = toy_bytes;
    plan.chosen.threads = true;
    const Summary summary = run_in_all_ways(plan, workspaces_);
    ASSERT_TRUE(summary.violation.has_value());
    verdict_.violation = summary.violation;
    bytes_ = summary.failed->subject.pool_bytes;
    found_size_ = size_of(summary.failed->program);
    small_ = shrink(*summary.failed, verdict_, workspaces_.of(bytes_), 5);
    if (!verdict_.run.trace.empty()) return;  // else it could not be repeated in that time
    const auto violation = verdict_.violation;
    verdict_ = record(small_, workspaces_.of(bytes_));
    verdict_.violation = violation;
  }
  /// The replay file of the finding shows it again.
  void expect_replay() {
    const auto replay = read_replay(write_replay(small_, verdict_).dump(), "test");
    ASSERT_TRUE(replay.ok()) << replay.error().line();
    EXPECT_EQ(replay->what.cut, small_.cut);
    EXPECT_EQ(replay->what.schedule.pauses, small_.schedule.pauses);
    EXPECT_EQ(replay->what.subject.pool_bytes, bytes_);
    const Verdict again =
        try_state(replay->what, workspaces_.of(bytes_), replay->event, replay->lines);
    EXPECT_EQ(again.trace_digest, replay->trace_digest);
    ASSERT_TRUE(again.violation.has_value());
    EXPECT_EQ(again.violation->what, verdict_.violation->what);
  }
  static std::size_t size_of(const Program& program) {
    return program.operations.size() + program.preload.size();
  }
  std::size_t bytes_ = toy_bytes;
  std::size_t found_size_ = 0;
};

TEST_F(FindingTest, WhatShowsOnlyAfterARecoveryIsShrunkAndReplayed) {
  for (const Defect defect :
       {Defect::recovery_unlink, Defect::recovery_duplicate, Defect::recovery_half_move}) {
    ASSERT_NO_FATAL_FAILURE(find_in_all_ways(defect));
    EXPECT_NE(small_.cut, 0U) << name_of(defect);
    EXPECT_LE(size_of(small_.program), found_size_) << name_of(defect);
    expect_replay();
  }
}

TEST_F(FindingTest, WhoGivesUpAfterSomeTriesIsReplayedWithItsPauses) {
  ASSERT_NO_FATAL_FAILURE(find_in_all_ways(Defect::bounded_retries));
  EXPECT_GT(small_.schedule.pauses, 1U);
  expect_replay();
}

TEST_F(FindingTest, WhatIsLostInTheLiveInstanceNeedsNoCutAndNoRepair) {
  ASSERT_NO_FATAL_FAILURE(find_in_all_ways(Defect::stale_parent));
  EXPECT_EQ(small_.program.threads, 2U);
  EXPECT_TRUE(verdict_.violation->fails_without_loss);
  EXPECT_EQ(explain(small_, verdict_, workspaces_.of(bytes_), places_, 5).kind,
            Explanation::Kind::no_cut);
  expect_replay();
}

TEST_F(FindingTest, AMissingFlushIsShrunkToAFewOperationsAndARepair) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::missing_flush));
  EXPECT_LE(small_.program.operations.size() + small_.program.preload.size(), 3U);
  EXPECT_EQ(small_.program.threads, 1U);
  EXPECT_NE(explain(small_, verdict_, workspace_, places_, 60).text.find("flush"),
            std::string::npos);
}

TEST_F(FindingTest, AMissingFenceIsRepairedByAFence) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::missing_fence));
  EXPECT_EQ(explain(small_, verdict_, workspace_, places_, 60).text.rfind("a fence", 0), 0U);
}

TEST_F(FindingTest, ACounterexampleNamesOperationLinesAndVerdict) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::missing_flush));
  const std::string text = tell(small_, verdict_, places_, {});
  for (const char* word : {"violation: ", "insert key", "power cut", "lost", "table.cpp:"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
}

TEST_F(FindingTest, ACounterexampleNamesTheFieldsThatWereLost) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::missing_flush));
  const std::string text = tell(small_, verdict_, places_, {});
  for (const char* words :
       {"table@", ".record[0].check = ", " in the run", ".record[0].check, line "})
    EXPECT_NE(text.find(words), std::string::npos) << words << " in\n" << text;
}

TEST_F(FindingTest, ACounterexampleWithoutALayoutShowsBytes) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::missing_flush));
  IndexInfo unknown = *small_.subject.info;
  unknown.media = nullptr;
  small_.subject.info = &unknown;
  const std::string text = tell(small_, verdict_, places_, {});
  EXPECT_EQ(text.find("table@"), std::string::npos) << text;
  EXPECT_NE(text.find("    bytes "), std::string::npos) << text;
}

TEST_F(FindingTest, AFindingOfTwoThreadsIsShrunkToFewOperationsOfTwo) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::read_of_unflushed));
  EXPECT_EQ(small_.program.threads, 2U);
  EXPECT_LE(small_.program.operations.size() + small_.program.preload.size(), 4U);
  const auto replay = read_replay(write_replay(small_, verdict_).dump(), "test");
  ASSERT_TRUE(replay.ok()) << replay.error().line();
  EXPECT_EQ(replay->what.schedule.order, small_.schedule.order);
  EXPECT_EQ(replay->what.schedule.preemptions, small_.schedule.preemptions);
}

TEST_F(FindingTest, AReplayFileShowsTheSameViolation) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::wrong_address));
  const std::string text = write_replay(small_, verdict_).dump();
  const auto replay = read_replay(text, "test");
  ASSERT_TRUE(replay.ok()) << replay.error().line();
  const Verdict again = try_state(replay->what, workspace_, replay->event, replay->lines);
  EXPECT_EQ(again.trace_digest, replay->trace_digest);
  ASSERT_TRUE(again.violation.has_value());
  EXPECT_EQ(again.violation->what, verdict_.violation->what);
}

TEST_F(FindingTest, AReplayFileHasEveryKindOfKey) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::missing_flush));
  for (const KeyKind kind : {KeyKind::integer, KeyKind::bytes, KeyKind::slots}) {
    small_.program.key_kind = kind;
    const auto replay = read_replay(write_replay(small_, verdict_).dump(), "test");
    ASSERT_TRUE(replay.ok()) << replay.error().line();
    EXPECT_EQ(replay->what.program.key_kind, kind);
  }
}

TEST_F(FindingTest, DamagedReplayFilesAreRefused) {
  ASSERT_NO_FATAL_FAILURE(find(Defect::missing_flush));
  const auto whole = write_replay(small_, verdict_);
  for (const auto& [name, value] : whole.items()) {
    auto without = whole;
    without.erase(name);
    EXPECT_FALSE(read_replay(without.dump(), "test").ok()) << name;
    auto wrong = whole;
    wrong[name] = -1;
    EXPECT_FALSE(read_replay(wrong.dump(), "test").ok()) << name;
  }
  for (const char* text : {"", "[]", "{", "{\"version\":99}", "null", "7"})
    EXPECT_FALSE(read_replay(text, "test").ok()) << text;
}

/// Every registered persistent index, without another line when one is added. For seconds each: the
/// stage `crash` of tools/run_tests.py goes on.
TEST(IndexesTest, NoRegisteredIndexLosesOrInventsAnything) {
  Workspace workspace(std::size_t{1} << 20);
  for (const IndexInfo& info : IndexRegistry::all()) {
    if (!info.recovers(KeyKind::integer) || info.index_class != IndexClass::persistent) continue;
    for (const unsigned threads : {1U, 2U}) {
      Plan plan = plan_for(info, threads, ~std::uint64_t{0});
      if (info.needs_eadr) plan.domain = Domain::eadr;
      plan.seconds = 1;
      const Summary summary = run(plan, workspace);
      EXPECT_GT(summary.coverage.states, 0U) << info.name;
      EXPECT_FALSE(summary.violation.has_value())
          << info.name << ", " << threads << " threads: " << summary.violation->oracle << ": "
          << summary.violation->what;
    }
  }
}

TEST(IndexesTest, ElidedPathsLoseNothing) {
  Workspace workspace(std::size_t{1} << 20);
  for (const char* const name : {"fptree", "lbtree"}) {
    Plan plan = plan_for(**IndexRegistry::find(name), 2, 3'000);
    plan.transactions = true;
    const Summary summary = run(plan, workspace);
    EXPECT_FALSE(summary.violation.has_value())
        << name << ": " << summary.violation->oracle << ": " << summary.violation->what;
  }
}

/// FPTree's locks lie in its leaves, so what its transactions store is in the trace.
TEST(IndexesTest, OnlyElidedPathsHaveTransactions) {
  Workspace workspace(std::size_t{1} << 20);
  const Plan plan = plan_for(**IndexRegistry::find("fptree"), 1, 1);
  Case what;
  what.subject = plan.subject;
  what.program = generate(program_plan(plan, 1));
  what.transactions = true;
  const auto in_groups = [&](std::uint8_t software) {
    what.schedule.software = software;
    const Trace trace = record(what, workspace).run.trace;
    return std::ranges::count_if(trace, [](const Event& event) { return event.group != 0; });
  };
  EXPECT_GT(in_groups(0), 0);
  EXPECT_EQ(in_groups(0xff), 0);
}

/// Pools of libpmemobj: few states, because each opens one.
class PmdkTest : public testing::Test {
 protected:
  Workspace workspace_{Pool::min_pool_bytes, HeapKind::pmdk};
  void SetUp() override {
    ASSERT_TRUE(workspace_.ready().ok()) << workspace_.ready().error().line();
  }
  [[nodiscard]] Summary explore(const IndexInfo& info, KeyKind keys, Domain domain,
                                unsigned threads, std::uint64_t states) {
    Plan plan = plan_for(info, threads, states);
    plan.subject.heap = HeapKind::pmdk;
    plan.subject.pool_bytes = Pool::min_pool_bytes;
    plan.key_kind = keys;
    plan.domain = domain;
    plan.bounds.product = 16;
    plan.bounds.recrash_states = 4;
    return run(plan, workspace_);
  }
};

TEST_F(PmdkTest, IndexesLoseNothingOnLibpmemobjsHeap) {
  for (const char* const name : {"fptree", "lbtree"})
    for (const KeyKind keys : {KeyKind::integer, KeyKind::bytes})
      for (const Domain domain : {Domain::adr, Domain::eadr}) {
        const Summary summary =
            explore(**IndexRegistry::find(name), keys, domain, domain == Domain::adr ? 2 : 1, 150);
        EXPECT_FALSE(summary.violation.has_value())
            << name << ", " << perdure::name_of(keys) << ", " << crash::name_of(domain) << ": "
            << summary.violation->oracle << ": " << summary.violation->what;
        EXPECT_GE(summary.coverage.states, 150U);
        EXPECT_GT(summary.coverage.deep, 0U);
        EXPECT_GT(summary.coverage.recovery_cuts, 0U);
      }
}

/// Every structure keeps what its mode promises.
TEST_F(PmdkTest, StructuresKeepTheirFailureContracts) {
  for (const IndexInfo& info : IndexRegistry::all()) {
    if (!info.recovers(KeyKind::slots)) continue;
    const Summary summary = explore(info, KeyKind::slots, Domain::adr, 1, 60);
    EXPECT_FALSE(summary.violation.has_value())
        << info.full_name() << ": " << summary.violation->oracle << ": " << summary.violation->what;
    EXPECT_GT(summary.coverage.states, 0U) << info.full_name();
  }
}

/// What the contracts let pass does happen: without them it is found.
TEST_F(PmdkTest, StructuresWithoutTransactionsTearWhatTheirContractsSay) {
  for (const char* const name : {"hashtable:pmem-persist", "arraylist:pmem-persist",
                                 "btree:pmem-persist", "rbtree:pmem-persist"}) {
    const IndexInfo& info = **IndexRegistry::find(name);
    ASSERT_NE(info.tearing, Tearing::nothing);
    IndexInfo strict = info;
    strict.tearing = Tearing::nothing;
    EXPECT_TRUE(explore(strict, KeyKind::slots, Domain::adr, 1, 1'000).violation.has_value())
        << name;
  }
}

TEST_F(PmdkTest, TheEngineOfPmidioLosesTheKeyOfARecordAsItsContractAdmitsUntilItIsMended) {
  const auto toy = find_subject("toy:pmse");
  ASSERT_TRUE(toy.ok());
  EXPECT_TRUE(explore(*toy->info, KeyKind::bytes, Domain::adr, 1, 1'000).violation.has_value());
  for (const char* const name : {"pmse:published", "pmse:mended"}) {
    const IndexInfo& info = **IndexRegistry::find(name);
    EXPECT_FALSE(explore(info, KeyKind::bytes, Domain::adr, 1, 1'000).violation.has_value())
        << name;
  }
}

TEST_F(PmdkTest, APlantedDefectIsFoundThere) {
  const Summary summary = explore(toys()[static_cast<std::size_t>(Defect::missing_flush)],
                                  KeyKind::integer, Domain::adr, 1, 3'000);
  EXPECT_TRUE(summary.violation.has_value()) << summary.coverage.states << " states";
}

/// Leaves the blocks of a chain that runs empty to one that fills: kills what forgets to flush the
/// unlinking.
TEST(MutationTest, AnUnlinkingThatIsNotFlushedIsFound) {
  const IndexInfo& info = **IndexRegistry::find("fptree");
  Workspace workspace(std::size_t{1} << 20);
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  Plan plan = plan_for(info, 1, 400'000);
  plan.long_programs = false;  // FPTree's leaves are small here, and reuse takes many programs
  std::set<Site> sites;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Case what;
    what.subject = plan.subject;
    what.program = generate(program_plan(plan, seed));
    sites.merge(record(what, workspace).sites);
  }
  Places places;
  unsigned tried = 0;
  for (const Site& site : sites) {
    if (site.is_fence || places.of(site.pc).function.find("unlink") == std::string::npos) continue;
    for (const Mutation::Kind kind : {Mutation::Kind::drop, Mutation::Kind::retarget}) {
      ++tried;
      plan.mutation = {kind, site.pc};
      const Summary summary = run(plan, workspace);
      EXPECT_TRUE(summary.violation.has_value())
          << places.of(site.pc).show() << ", " << summary.coverage.states << " states";
    }
  }
  EXPECT_GE(tried, 2U);
}

/// What a recovery flushes, only a cut behind it asks for: that the pool is in use again.
TEST(MutationTest, WhatARecoveryForgetsToFlushIsFound) {
  const IndexInfo& info = **IndexRegistry::find("roart");
  Workspace workspace(std::size_t{1} << 20);
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  Plan plan = plan_for(info, 1, 40'000);
  plan.cuts = 4;
  std::set<Site> sites;
  for (std::uint64_t cut = 2; cut < 6; ++cut) {
    Case what;
    what.subject = plan.subject;
    what.program = generate(program_plan(plan, 1));
    what.cut = cut;
    sites.merge(record(what, workspace).sites);
  }
  Places places;
  unsigned tried = 0;
  for (const Site& site : sites) {
    if (site.is_fence || places.of(site.pc).function.find("set_clean") == std::string::npos)
      continue;
    ++tried;
    plan.mutation = {Mutation::Kind::drop, site.pc};
    const Summary summary = run(plan, workspace);
    EXPECT_TRUE(summary.violation.has_value()) << summary.coverage.states << " states";
  }
  EXPECT_GE(tried, 1U);
}

TEST(LeastPoolTest, APoolWithLittleRoomRunsFull) {
  for (const auto& [name, room] : {std::pair{"lbtree", 0U}, {"dptree", 1U}, {"roart", 3U}}) {
    const IndexInfo& info = **IndexRegistry::find(name);
    Plan plan = plan_for(info, 1, 400);
    plan.subject.pool_bytes = least_pool_bytes(plan.subject, KeyKind::integer);
    EXPECT_LT(plan.subject.pool_bytes, std::size_t{1} << 19);
    plan.subject.pool_bytes += room * SlabHeap::chunk_bytes;
    plan.keys = 3000;
    plan.preload = 3000;
    Workspace workspace(plan.subject.pool_bytes);
    Case what;
    what.subject = plan.subject;
    what.program = generate(program_plan(plan, 1));
    const Verdict verdict = record(what, workspace);
    EXPECT_FALSE(verdict.violation.has_value()) << name << ": " << verdict.violation->what;
    const auto refused = std::ranges::count(verdict.run.answers, Outcome::out_of_space,
                                            [](const Answer& answer) { return answer.outcome; });
    EXPECT_GT(refused, 100) << name;
    const Summary summary = run(plan, workspace);
    EXPECT_FALSE(summary.violation.has_value())
        << name << ": " << summary.violation->oracle << ": " << summary.violation->what;
  }
}

TEST(LeastPoolTest, OneChunkLessIsTooSmall) {
  Subject subject{*IndexRegistry::find("dptree"), {}, std::size_t{1} << 20};
  subject.options = small_options(*subject.info);
  const std::size_t least = least_pool_bytes(subject, KeyKind::integer);
  const auto creates = [&](std::size_t bytes) {
    Program program;
    const Vocabulary vocabulary(program);
    const Memory memory(bytes);
    const auto made = start_new(subject, vocabulary, memory);
    return made.ok() && (*made)->perform({.action = Action::create}).wrong.empty();
  };
  EXPECT_TRUE(creates(least));
  EXPECT_FALSE(creates(least - SlabHeap::chunk_bytes));
}

TEST(WatchTest, ALoopThatNoHookSeesIsStopped) {
  Image image(std::size_t{64} << 10);
  Watch watch(image);
  watch.patience(0.3);
  volatile unsigned turns = 0;
  EXPECT_EQ(watch.run([&] {
    for (;;) turns = turns + 1;
  }),
            Ending::out_of_steps);
  EXPECT_EQ(watch.run([] {}), Ending::returned);
}

TEST(ThreadsTest, EightThreadsAreExplored) {
  Workspace workspace(std::size_t{1} << 20);
  const IndexInfo& info = **IndexRegistry::find("lbtree");
  Plan plan = plan_for(info, 8, 3'000);
  plan.operations = 32;
  const Summary summary = run(plan, workspace);
  EXPECT_FALSE(summary.violation.has_value())
      << summary.violation->oracle << ": " << summary.violation->what;
  EXPECT_GE(summary.coverage.states, 3'000U);
}

TEST(DeterminismTest, TheSameSeedGivesTheSameInAllWays) {
  const IndexInfo& info = **IndexRegistry::find("fptree");
  Workspaces first(HeapKind::slab);
  Workspaces second(HeapKind::slab);
  const Plan plan = plan_for(info, 1, 6'000);  // and of two and six threads
  const Summary a = run_in_all_ways(plan, first);
  const Summary b = run_in_all_ways(plan, second);
  EXPECT_EQ(a.trace_digest, b.trace_digest);
  EXPECT_EQ(a.programs, b.programs);
  EXPECT_EQ(a.coverage.states, b.coverage.states);
  EXPECT_EQ(a.coverage.recovery_cuts, b.coverage.recovery_cuts);
}

TEST(DeterminismTest, TheSameSeedGivesTheSameTraceAndStates) {
  const IndexInfo& info = **IndexRegistry::find("lbtree");
  for (const bool transactions : {false, true}) {
    Workspace first(std::size_t{1} << 20);
    Workspace second(std::size_t{1} << 20);
    Plan plan = plan_for(info, 2, 2'000);
    plan.transactions = transactions;
    const Summary a = run(plan, first);
    const Summary b = run(plan, second);
    EXPECT_EQ(a.trace_digest, b.trace_digest) << "transactions " << transactions;
    EXPECT_EQ(a.coverage.states, b.coverage.states);
    EXPECT_EQ(a.coverage.recovery_cuts, b.coverage.recovery_cuts);
  }
}

}  // namespace
}  // namespace perdure::crash
