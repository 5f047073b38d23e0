// A process finds again what an earlier, killed one has acknowledged.
#include <gtest/gtest.h>

#include "support/kill.h"
#include "support/test_history.h"

namespace perdure::testing {
namespace {

class Recovery : public HistoryTest {};
class SuddenEnd : public ::testing::TestWithParam<Target> {};

TEST_P(Recovery, reopens_at_another_address_in_the_middle_of_a_history) {
  run({.seed = 31, .shape = Shape::dense, .keys = 300, .operations = 4000, .reopen = true});
  run({.seed = 32, .shape = Shape::adversarial, .keys = 200, .operations = 2000, .reopen = true});
  run({.seed = 33,
       .shape = Shape::random,
       .keys = 2000,
       .operations = 4000,
       .small_nodes = false,
       .reopen = true});
}

TEST_P(Recovery, reopens_what_a_bulk_load_left) {
  run({.seed = 34,
       .shape = Shape::random,
       .keys = 3000,
       .operations = 500,
       .bulk_load = true,
       .reopen = true});
}

TEST_P(Recovery, reopens_an_empty_index) {
  for_kind(GetParam().kind, [&](auto keys) {
    using Keys = decltype(keys);
    for (const Reopen how : {Reopen::clean, Reopen::crash}) {
      auto bed = Bed<Keys>::create(GetParam(), {});
      ASSERT_TRUE(bed.ok()) << bed.error().line();
      auto reopened = bed.value()->reopen(how);
      ASSERT_TRUE(reopened.ok()) << reopened.error().line();
      EXPECT_EQ(bed.value()->index().size(), 0U);
      EXPECT_TRUE(bed.value()->index().check_invariants().ok());
      EXPECT_EQ(bed.value()->index().insert(Samples<Keys>::numbered(1), Samples<Keys>::stamped(1)),
                Outcome::ok);
    }
  });
}

TEST_P(SuddenEnd, survives_kills_at_random_moments) {
  // Rounds alternate between small and default nodes; a target must survive both.
  const bool disk = GetParam().info->index_class == IndexClass::on_disk;
  const bool one_kind = GetParam().info->create_bytes == nullptr;
  // A pool of libpmemobj is opened twice each time (pool/pmdk_trial.h), which takes most of the
  // test.
  const bool twice = GetParam().heap == HeapKind::pmdk;
  const auto kills =
      static_cast<unsigned>(scaled(disk ? 20 : (one_kind ? 200 : 100) / (twice ? 3 : 1), 10));
  for (const bool small : {true, false}) {
    if (disk && !small) continue;
    const KillPlan plan{.seed = seed_or(small ? 35 : 36),
                        .kills = disk ? kills : kills / 2,
                        .keys = small ? 1200U : 6000U,
                        .small_nodes = small};
    const Result<KillReport> done = for_kind(GetParam().kind, [&](auto keys) {
      return run_kill_rounds<decltype(keys)>(GetParam(), plan);
    });
    ASSERT_TRUE(done.ok()) << done.error().line();
    const KillReport& report = done.value();
    EXPECT_EQ(report.kills, plan.kills);
    EXPECT_GT(report.acknowledged, 0U);
    EXPECT_GT(report.kills_in_flight, 0U) << "no kill hit an operation: the test shows nothing";
    std::printf(
        "%s, %s nodes: %u kills, %u in recovery, %u with operations in flight, "
        "%llu acknowledged, %llu blocks taken back\n",
        GetParam().name().c_str(), small ? "small" : "default", report.kills,
        report.kills_in_recovery, report.kills_in_flight,
        static_cast<unsigned long long>(report.acknowledged),
        static_cast<unsigned long long>(report.leaked_blocks_freed));
  }
}

INSTANTIATE_TEST_SUITE_P(Indexes, Recovery, ::testing::ValuesIn(recovering_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Recovery);

INSTANTIATE_TEST_SUITE_P(Indexes, SuddenEnd, ::testing::ValuesIn(killable_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SuddenEnd);

}  // namespace
}  // namespace perdure::testing
