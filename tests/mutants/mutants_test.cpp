// Every mutant is caught by the checker it is meant for, and the unspoiled wrapper passes them all.
// A suite that lets one through shows nothing about the real indexes either.
#include "mutants/mutants.h"

#include <gtest/gtest.h>

#include "pm/pm.h"
#include "support/concurrent.h"
#include "support/corruption.h"
#include "support/differential.h"
#include "support/dispatch.h"
#include "support/kill.h"
#include "support/space.h"

namespace perdure::testing {
namespace {

Target in_memory(Fault fault, KeyKind kind = KeyKind::integer) {
  return {&mutant(fault), HeapKind::dram, kind};
}
Target persistent(Fault fault, HeapKind heap = HeapKind::slab) {
  return {&mutant(fault), heap, KeyKind::integer};
}

Result<void> differential(const Target& target, Shape shape = Shape::dense, bool reopen = false) {
  const HistoryPlan plan{
      .seed = 51, .shape = shape, .keys = 200, .operations = 4000, .reopen = reopen};
  return for_kind(target.kind,
                  [&](auto keys) { return run_differential<decltype(keys)>(target, plan, 2); });
}

template <class Check>
Result<void> concurrent(Fault fault, Check&& check) {
  auto bed = Bed<IntegerKeys>::create(in_memory(fault), {});
  if (!bed) return bed.error();
  return check(*bed.value());
}

/// In one of several runs, because it is chance whether threads collide.
template <class Check>
bool is_caught(Fault fault, Check&& check) {
  constexpr std::uint64_t most_runs = 20;
  for (std::uint64_t seed = 0; seed < most_runs; ++seed)
    if (!concurrent(fault, [&](auto& bed) { return check(bed, seed); }).ok()) return true;
  return false;
}

class CaughtByDifferentialRuns : public ::testing::TestWithParam<Fault> {};

TEST_P(CaughtByDifferentialRuns, with_a_short_history) {
  const auto done = differential(in_memory(GetParam()), Shape::adversarial);
  ASSERT_FALSE(done.ok()) << "the mutant passed";
  EXPECT_NE(done.error().what.find("shrunk to"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Mutants, CaughtByDifferentialRuns,
                         ::testing::Values(Fault::loses_an_update, Fault::insert_ok_on_present,
                                           Fault::insert_overwrites, Fault::remove_says_not_found,
                                           Fault::scan_skips, Fault::scan_repeats,
                                           Fault::scan_too_short, Fault::signed_order,
                                           Fault::wrong_size, Fault::stale_lookup,
                                           Fault::batch_backwards, Fault::batch_forgets_last),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(Mutants, byte_keys_cut_at_zero_are_caught) {
  EXPECT_FALSE(
      differential(in_memory(Fault::cuts_at_zero, KeyKind::bytes), Shape::adversarial).ok());
}

TEST(Mutants, keys_over_the_limit_that_are_taken_are_caught) {
  EXPECT_FALSE(differential(in_memory(Fault::takes_long_keys, KeyKind::bytes)).ok());
}

TEST(Mutants, a_racy_insert_is_caught_by_contended_keys) {
  EXPECT_TRUE(is_caught(Fault::racy_insert, [](auto& bed, std::uint64_t seed) {
    return check_contended_keys(bed, {.seed = seed, .threads = 4, .operations = 5000, .keys = 2});
  }));
}

TEST(Mutants, a_stale_lookup_is_caught_by_threads) {
  EXPECT_TRUE(is_caught(Fault::stale_lookup, [](auto& bed, std::uint64_t seed) {
    return check_owned_keys(bed, {.seed = seed, .threads = 3, .operations = 3000});
  }));
  EXPECT_TRUE(is_caught(Fault::stale_lookup, [](auto& bed, std::uint64_t seed) {
    return check_contended_keys(bed, {.seed = seed, .threads = 3, .operations = 3000, .keys = 4});
  }));
}

TEST(Mutants, a_scan_that_skips_or_repeats_is_caught_under_churn) {
  for (const Fault fault : {Fault::scan_skips, Fault::scan_repeats})
    for (const Churn churn : {Churn::ascending, Churn::random, Churn::empty_leaves}) {
      const auto scan = [&](auto& bed, std::uint64_t seed) {
        return check_scans_during(bed, churn, {.seed = seed, .operations = 20000, .keys = 1000});
      };
      EXPECT_TRUE(is_caught(fault, scan)) << name_of(fault);
    }
}

TEST(Mutants, records_kept_in_dram_are_caught_by_reopening_and_by_kills) {
  EXPECT_FALSE(differential(persistent(Fault::forgets_on_recovery), Shape::dense, true).ok());
  EXPECT_FALSE(
      run_kill_rounds<IntegerKeys>(persistent(Fault::forgets_on_recovery), {.kills = 5}).ok());
}

TEST(Mutants, an_early_acknowledgement_is_caught_by_kills) {
  // Only a kill between the acknowledgement and the deed shows it: nothing else does.
  EXPECT_TRUE(differential(persistent(Fault::acknowledges_early)).ok());
  const auto done =
      run_kill_rounds<IntegerKeys>(persistent(Fault::acknowledges_early), {.kills = 100});
  EXPECT_FALSE(done.ok());
}

TEST(Mutants, a_leaked_block_is_caught_on_either_heap) {
  for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk}) {
    const auto done = differential(persistent(Fault::leaks_a_block, heap));
    ASSERT_FALSE(done.ok()) << perdure::name_of(heap);
    const auto kills =
        run_kill_rounds<IntegerKeys>(persistent(Fault::leaks_a_block, heap), {.kills = 8});
    EXPECT_FALSE(kills.ok()) << perdure::name_of(heap);
  }
}

TEST(Mutants, an_unchecked_offset_is_caught_by_damaged_pools) {
  const auto done =
      check_corruption<IntegerKeys>(persistent(Fault::follows_wild_pointers), {.trials = 300});
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().what.find("died of signal"), std::string::npos) << done.error().line();
}

TEST(Mutants, lies_about_a_full_pool_are_caught) {
  for (const Fault fault : {Fault::ignores_out_of_space, Fault::drops_when_full})
    EXPECT_FALSE(check_out_of_space<IntegerKeys>(persistent(fault), Pool::min_pool_bytes).ok())
        << name_of(fault);
}

TEST(Mutants, the_wrapper_alone_passes_everything) {
  const auto passes = [](const Result<void>& done) {
    EXPECT_TRUE(done.ok()) << done.error().line();
  };
  for (const KeyKind kind : {KeyKind::integer, KeyKind::bytes})
    passes(differential(in_memory(Fault::none, kind), Shape::adversarial));
  passes(concurrent(Fault::none, [](auto& bed) {
    return check_contended_keys(bed, {.threads = 4, .operations = 5000, .keys = 2});
  }));
  passes(concurrent(Fault::none, [](auto& bed) { return check_owned_keys(bed, {}); }));
}

}  // namespace
}  // namespace perdure::testing
