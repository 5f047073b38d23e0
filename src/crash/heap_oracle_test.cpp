// Oracles that ask the heap: leaks of a run, slots lost for ever, refusals without a reason; and
// what a violation tells of them.
#include "crash/heap_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crash/search.h"
#include "crash/toys/toys.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

using testing::HasSubstr;

constexpr std::size_t small_pool_bytes = std::size_t{256} << 10;

Plan plan_for(const IndexInfo& info, std::size_t pool_bytes, unsigned threads, std::uint64_t states,
              Bounds bounds = {}) {
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  Plan plan;
  plan.subject.info = &info;
  plan.subject.options = small_options(info);
  plan.subject.pool_bytes = pool_bytes;
  plan.threads = threads;
  plan.most_states = states;
  plan.seconds = 120;
  plan.bounds = bounds;
  return plan;
}

Summary explore(const IndexInfo& info, std::size_t pool_bytes, unsigned threads,
                std::uint64_t states, Bounds bounds = {}) {
  Workspace workspace(pool_bytes);
  return explore_many(plan_for(info, pool_bytes, threads, states, bounds), workspace,
                      [](const Summary&) {});
}

Summary find(Defect defect, Bounds bounds = {}) {
  return explore(toys()[static_cast<std::size_t>(defect)], small_pool_bytes, threads_of(defect),
                 200'000, bounds);
}

TEST(HeapOracleTest, ALeakOfTheRunIsFoundAndItsBlockNamed) {
  const Summary summary = find(Defect::old_node_not_freed);
  ASSERT_TRUE(summary.violation.has_value());
  const Violation& violation = *summary.violation;
  EXPECT_EQ(violation.oracle, Oracle::heap);
  EXPECT_THAT(violation.what, HasSubstr("leak: the heap holds "));
  EXPECT_THAT(violation.what, HasSubstr(" bytes at pool offset "));
  EXPECT_THAT(violation.what, HasSubstr("(node), which "));
  EXPECT_THAT(violation.what, HasSubstr(" key "));
  EXPECT_TRUE(violation.fails_without_loss);
  EXPECT_TRUE(violation.lines.empty());
  ASSERT_FALSE(violation.blocks.empty());
  EXPECT_TRUE(violation.blocks[0].leaks);
}

TEST(HeapOracleTest, TheFirstStoreToALeakedBlockIsTold) {
  const Summary summary = find(Defect::old_node_not_freed);
  ASSERT_TRUE(summary.violation.has_value() && !summary.violation->blocks.empty());
  const FaultyBlock& faulty = summary.violation->blocks[0];
  Workspace workspace(small_pool_bytes);
  const Verdict again = record(*summary.failed, workspace);
  ASSERT_LT(faulty.first_store, again.run.trace.size());
  const Event& store = again.run.trace[faulty.first_store];
  EXPECT_EQ(store.kind, Event::Kind::store);
  EXPECT_GE(store.at, faulty.block.offset);
  EXPECT_LT(store.at, faulty.block.offset + faulty.block.bytes);
  ASSERT_TRUE(faulty.reserved_by.has_value());
  const auto call = std::ranges::find_if(again.run.trace, [&](const Event& event) {
    return event.kind == Event::Kind::call && event.at == *faulty.reserved_by;
  });
  EXPECT_LT(call - again.run.trace.begin(), faulty.first_store);
}

TEST(HeapOracleTest, SlotsThatAreUsedOnceAreARefusalForWhichTheHeapGaveNoReason) {
  const Summary summary = find(Defect::slots_used_once);
  ASSERT_TRUE(summary.violation.has_value());
  EXPECT_THAT(summary.violation->what, HasSubstr("came to out_of_space"));
  EXPECT_THAT(summary.violation->what, HasSubstr("the heap has refused nobody since the pool was"));
  EXPECT_TRUE(summary.violation->fails_without_loss);
}

TEST(HeapOracleTest, ARefusalAfterRecoveryIsFoundWithTheOperationsThatLedToIt) {
  const Summary summary = find(Defect::slots_not_counted);
  ASSERT_TRUE(summary.violation.has_value());
  const Violation& violation = *summary.violation;
  EXPECT_EQ(violation.oracle, Oracle::continued);
  EXPECT_THAT(violation.what, HasSubstr("came to out_of_space"));
  EXPECT_TRUE(violation.fails_without_loss);
  ASSERT_FALSE(violation.continued.empty());
  EXPECT_EQ(violation.continued.back().answer.outcome, Outcome::out_of_space);
}

TEST(HeapOracleTest, BlocksThatDeadRecordsKeepAreSlotsLost) {
  const Summary summary = find(Defect::dead_nodes_stay);
  ASSERT_TRUE(summary.violation.has_value());
  EXPECT_EQ(summary.violation->oracle, Oracle::heap);
  EXPECT_THAT(summary.violation->what, HasSubstr("slots are lost: it holds "));
}

TEST(HeapOracleTest, BlocksThatDifferAreTold) {
  const std::vector<Heap::Extent> live{{64, 32}, {96, 32}, {192, 64}};
  const std::vector<Heap::Extent> reached{{64, 32}, {128, 32}};
  std::vector<FaultyBlock> blocks = differing_blocks(live, reached);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_TRUE(blocks[0].leaks && blocks[1].leaks && !blocks[2].leaks);
  EXPECT_EQ(blocks[2].block.offset, 128U);
  blocks[1].reserved_by = 7;
  Subject subject;
  subject.info = &toys()[static_cast<std::size_t>(Defect::old_node_not_freed)];
  const auto who = [](std::uint32_t operation) { return "operation " + std::to_string(operation); };
  EXPECT_EQ(tell_difference(subject, 3, 2, blocks, who),
            "leak: the heap holds 3 blocks, recovery reaches 2: 32 bytes at pool offset 96 (node), "
            "64 bytes at pool offset 192, which operation 7 reserved");
  EXPECT_EQ(tell_difference(subject, 2, 3, blocks, who),
            "double free: the heap holds 2 blocks, recovery reaches 3: 32 bytes at pool offset 128 "
            "(node)");
  EXPECT_EQ(tell_difference(subject, 2, 2, blocks, who), "");
}

TEST(HeapOracleTest, ALostStoreIsNoViolationWithoutLoss) {
  for (const Defect defect : {Defect::missing_flush, Defect::missing_fence,
                              Defect::log_reset_unflushed, Defect::unlock_before_flush}) {
    const Summary summary = find(defect);
    ASSERT_TRUE(summary.violation.has_value()) << name_of(defect);
    EXPECT_FALSE(summary.violation->fails_without_loss) << name_of(defect);
    EXPECT_FALSE(summary.violation->lines.empty()) << name_of(defect);
  }
}

TEST(HeapOracleTest, TextsNameAKeyOrABlock) {
  for (std::size_t i = 0; i < defects; ++i) {
    const auto defect = static_cast<Defect>(i);
    if (is_elided(defect)) continue;
    Plan plan = plan_for(toys()[i], small_pool_bytes, threads_of(defect), 200'000);
    plan.chosen.threads = true;
    plan.batch = batch_of(defect);
    Workspaces workspaces(HeapKind::slab);
    const Summary summary = explore_in_all_ways(plan, workspaces, [](const Summary&) {});
    ASSERT_TRUE(summary.violation.has_value()) << name_of(defect);
    const Violation& violation = *summary.violation;
    // What a structure says of itself, and what does not end, is not of one key.
    if (violation.oracle == Oracle::recovery || violation.oracle == Oracle::invariants ||
        violation.oracle == Oracle::time_out || violation.what.find("slots are lost") == 0)
      continue;
    EXPECT_TRUE(violation.what.find("key ") != std::string::npos ||
                violation.what.find("pool offset") != std::string::npos)
        << name_of(defect) << ": " << violation.what;
  }
}

/// Which states the costly oracles are asked of hangs on their content, not on how many came
/// before.
TEST(HeapOracleTest, AQuarterOfTheContentsIsAskedAllOracles) {
  const IndexInfo& sound = toys()[defects + static_cast<std::size_t>(Defect::missing_flush)];
  const Summary summary = explore(sound, small_pool_bytes, 1, 20'000);
  ASSERT_FALSE(summary.violation.has_value());
  EXPECT_NEAR(static_cast<double>(summary.coverage.deep),
              static_cast<double>(summary.coverage.states) / 4,
              static_cast<double>(summary.coverage.states) / 20);
}

class FullPoolTest : public testing::TestWithParam<std::tuple<const char*, KeyKind>> {};

/// Every refusal there has a reason, and what is freed is used again.
TEST_P(FullPoolTest, AnIndexIsRefusedOnlyWhatAFullHeapHasNot) {
  const auto [name, kind] = GetParam();
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  Plan plan;
  plan.subject.info = *IndexRegistry::find(name);
  plan.subject.options = small_options(*plan.subject.info);
  plan.subject.pool_bytes = least_pool_bytes(plan.subject, kind);
  plan.key_kind = kind;
  plan.keys = 3000;
  plan.preload = 3000;
  plan.operations = 60;
  Workspace workspace(plan.subject.pool_bytes);
  std::ptrdiff_t refused = 0;
  for (std::uint64_t seed = 3; seed <= 5; ++seed) {
    Case what{plan.subject, generate(program_plan(plan, seed)), {}, Domain::adr, {}, {}};
    what.bounds.recrash_states = 0;
    // The state in which nothing is lost, with a continued workload.
    const Verdict undisturbed = record(what, workspace);
    const auto end = static_cast<std::uint32_t>(undisturbed.run.trace.size());
    const Verdict verdict =
        undisturbed.violation ? undisturbed : try_state(what, workspace, end, {});
    EXPECT_FALSE(verdict.violation.has_value())
        << seed << ": " << verdict.violation->oracle << ": " << verdict.violation->what;
    refused += std::ranges::count(verdict.run.answers, Outcome::out_of_space, &Answer::outcome);
  }
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(, FullPoolTest,
                         testing::Combine(testing::Values("lbtree", "fptree", "utree", "dptree",
                                                          "pactree", "roart"),
                                          testing::Values(KeyKind::integer, KeyKind::bytes)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  perdure::name_of(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace perdure::crash
