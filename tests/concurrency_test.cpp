// Many threads: ownership, contention, scans under splits and merges. Also run under
// ThreadSanitizer (PERDURE_SANITIZE=thread with PERDURE_TEST_FACTOR below 1).
#include <gtest/gtest.h>

#include "pm/pm.h"
#include "support/concurrent.h"
#include "support/dispatch.h"

namespace perdure::testing {
namespace {

class Concurrency : public ::testing::TestWithParam<Target> {
 protected:
  /// Runs `check(bed)` on a new index.
  template <class Check>
  void on_new_index(bool small, Check&& check) {
    for_kind(GetParam().kind, [&](auto keys) {
      using Keys = decltype(keys);
      BedOptions options;
      if (small) options.options = small_nodes(*GetParam().info);
      auto bed = Bed<Keys>::create(GetParam(), options);
      EXPECT_TRUE(bed.ok()) << bed.error().line();
      if (!bed.ok()) return;
      const Result<void> done = check(*bed.value());
      EXPECT_TRUE(done.ok()) << done.error().line();
    });
  }
  /// On-disk engines make every write durable on its own: less of it.
  [[nodiscard]] std::uint64_t amount(std::uint64_t operations) const {
    const bool disk = GetParam().info->index_class == IndexClass::on_disk;
    return scaled(disk ? operations / 10 : operations, 100);
  }
};

TEST_P(Concurrency, each_thread_finds_its_own_keys_as_it_left_them) {
  for (const bool small : {true, false})
    on_new_index(small, [&](auto& bed) {
      return check_owned_keys(bed, {.seed = seed_or(21), .threads = 4, .operations = amount(6000)});
    });
}

TEST_P(Concurrency, contended_keys_are_linearizable) {
  for (const std::uint64_t keys : {2U, 20U})
    on_new_index(true, [&](auto& bed) {
      return check_contended_keys(
          bed, {.seed = seed_or(22), .threads = 3, .operations = amount(4000), .keys = keys});
    });
}

TEST_P(Concurrency, changes_that_come_to_nothing_hide_nothing) {
  on_new_index(false, [&](auto& bed) {
    return check_refused_changes(
        bed, {.seed = seed_or(26), .threads = 4, .operations = amount(400000), .keys = 4});
  });
}

TEST_P(Concurrency, scans_miss_nothing_while_the_right_end_splits) {
  on_new_index(true, [&](auto& bed) {
    return check_scans_during(
        bed, Churn::ascending,
        {.seed = seed_or(23), .threads = 4, .operations = amount(6000), .keys = 4000});
  });
}

TEST_P(Concurrency, scans_miss_nothing_while_leaves_split_everywhere) {
  on_new_index(true, [&](auto& bed) {
    return check_scans_during(
        bed, Churn::random,
        {.seed = seed_or(24), .threads = 4, .operations = amount(6000), .keys = 2000});
  });
}

TEST_P(Concurrency, scans_miss_nothing_while_leaves_come_and_go) {
  for (const bool small : {true, false})
    on_new_index(small, [&](auto& bed) {
      return check_scans_during(
          bed, Churn::empty_leaves,
          {.seed = seed_or(25), .threads = 4, .operations = amount(6000), .keys = 1000});
    });
}

// Natively transactions are off by default.
TEST_P(Concurrency, elided_operations_too) {
  pm::configure_transactions(pm::TransactionUse::on);
  for (const bool small : {true, false})
    on_new_index(small, [&](auto& bed) {
      return check_owned_keys(bed, {.seed = seed_or(27), .threads = 4, .operations = amount(2000)});
    });
  on_new_index(true, [&](auto& bed) {
    return check_contended_keys(
        bed, {.seed = seed_or(28), .threads = 3, .operations = amount(1000), .keys = 20});
  });
  pm::configure_transactions(pm::TransactionUse::automatic);
}

INSTANTIATE_TEST_SUITE_P(Indexes, Concurrency, ::testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace perdure::testing
