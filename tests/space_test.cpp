// Full pools: an error, and nothing lost.
#include "support/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "support/dispatch.h"
#include "support/refill.h"
#include "support/samples.h"

namespace perdure::testing {
namespace {

class OutOfSpace : public ::testing::TestWithParam<Target> {};

TEST_P(OutOfSpace, is_an_outcome_that_loses_nothing) {
  const Result<void> done = for_kind(GetParam().kind, [](auto keys) {
    return check_out_of_space<decltype(keys)>(GetParam(), Pool::min_pool_bytes);
  });
  EXPECT_TRUE(done.ok()) << done.error().line();
}

TEST_P(OutOfSpace, leaves_an_index_empty_when_a_bulk_load_does_not_fit) {
  for_kind(GetParam().kind, [](auto keys) {
    using Keys = decltype(keys);
    using Sample = Samples<Keys>;
    BedOptions options;
    options.pool_bytes = Pool::min_pool_bytes;
    auto bed = Bed<Keys>::create(GetParam(), options);
    ASSERT_TRUE(bed.ok()) << bed.error().line();
    std::vector<std::pair<typename Sample::Key, typename Sample::Value>> owned;
    std::vector<typename Keys::Record> records;
    constexpr std::uint64_t too_many = Keys::kind == KeyKind::integer ? 1'500'000 : 400'000;
    for (std::uint64_t i = 0; i < too_many; ++i)
      owned.emplace_back(Sample::numbered(i), Sample::stamped(i));
    for (const auto& [key, value] : owned) records.push_back({key, value});
    const auto done = bed.value()->index().bulk_load(records);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, ErrorCode::out_of_space) << done.error().line();
    EXPECT_EQ(bed.value()->index().size(), 0U);
    EXPECT_TRUE(bed.value()->index().check_invariants().ok());
    auto again = bed.value()->index().bulk_load(std::span(records).first(1000));
    if (!again.ok() && GetParam().heap == HeapKind::pmdk) {
      // libpmemobj gives the chunks of another thread's arena back only when the pool is opened.
      const auto reopened = bed.value()->reopen(Reopen::clean);
      ASSERT_TRUE(reopened.ok()) << reopened.error().line();
      again = bed.value()->index().bulk_load(std::span(records).first(1000));
    }
    EXPECT_TRUE(again.ok()) << again.error().line();
    EXPECT_EQ(bed.value()->index().size(), 1000U);
  });
}

INSTANTIATE_TEST_SUITE_P(Indexes, OutOfSpace, ::testing::ValuesIn(pool_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OutOfSpace);

/// Persistent indexes on each of their heaps. On `dram` they would have the heap of `slab`.
class Refilled : public ::testing::TestWithParam<Target> {
 protected:
  /// libpmemobj keeps a run of 256 KiB for each size class in each arena until the pool is opened:
  /// a fifth of so small a pool, where an index has blocks of many sizes. How much of a full pool
  /// DPTree's logs hold depends on when the last merges were. Byte strings have blocks of many
  /// sizes, and which of them have the last chunks when several threads fill a pool decides for
  /// some hundredths.
  [[nodiscard]] static unsigned percent(unsigned threads) {
    if (GetParam().heap == HeapKind::pmdk) return 75;
    if (GetParam().info->name == "dptree") return 95;
    return threads > 1 && GetParam().kind == KeyKind::bytes ? 96 : 99;
  }
  void check(unsigned threads, unsigned rounds) {
    // One chunk is a hundredth of the records of the smallest pool.
    const bool wants_more = threads > 1 && percent(threads) > 90;
    const std::uint64_t bytes = (wants_more ? 4 : 1) * Pool::min_pool_bytes;
    const Refill refill{.pool_bytes = bytes,
                        .room_bytes = bytes,
                        .threads = threads,
                        .rounds = rounds,
                        .percent = percent(threads)};
    const Result<void> done = for_kind(GetParam().kind, [&](auto keys) {
      return check_refill<decltype(keys)>(GetParam(), refill);
    });
    EXPECT_TRUE(done.ok()) << done.error().line();
  }
  void check_replacing_values(Left left) {
    // A tenth of it must be enough for a run of each size class in each arena of libpmemobj, and
    // beside DPTree's logs for blocks of each.
    const bool is_dptree = GetParam().info->name == "dptree";
    const bool wants_more = GetParam().heap == HeapKind::pmdk || is_dptree;
    const std::uint64_t bytes =
        (wants_more && GetParam().kind == KeyKind::bytes ? 2 : 1) * Pool::min_pool_bytes;
    // How many strings DPTree takes differs by a tenth from pool to pool.
    const Refill refill{
        .pool_bytes = bytes, .room_bytes = bytes, .threads = 4, .counts = is_dptree ? 3U : 1U};
    // How early its leaves took the room that blobs lack then is chance, in 1 of some 75 pools.
    const unsigned pools = is_dptree && GetParam().kind == KeyKind::bytes ? 3 : 1;
    Result<void> done;
    for (unsigned pool = 0; pool < pools; ++pool) {
      done = for_kind(GetParam().kind, [&](auto keys) {
        return check_replacing<decltype(keys)>(GetParam(), refill, left);
      });
      if (done) return;
    }
    ADD_FAILURE() << done.error().line();
  }
};

TEST_P(Refilled, takes_as_much_as_before) { check(1, 2); }

TEST_P(Refilled, takes_as_much_as_before_from_eight_threads) { check(8, 2); }

class NearlyFull : public Refilled {};

TEST_P(NearlyFull, replaces_values_with_a_tenth_of_its_room_left) {
  check_replacing_values(Left::untouched);
}

TEST_P(NearlyFull, replaces_values_after_a_tenth_was_taken_out) {
  check_replacing_values(Left::removed);
}

/// Without those that take time in the square of their records: lists, graphs that have them, and
/// the example's chains.
std::vector<Target> refilled_targets() {
  constexpr std::array<std::string_view, 4> prefixes{"arraylist", "linkedlist", "graph",
                                                     "chained_hash"};
  std::vector<Target> list = pool_targets();
  std::erase_if(list, [&](const Target& target) {
    return std::ranges::any_of(
        prefixes, [&](std::string_view prefix) { return target.info->name.starts_with(prefix); });
  });
  return list;
}

/// DPTree's leaves and logs may have taken the last runs of libpmemobj that strings could be in.
std::vector<Target> nearly_full_targets() {
  std::vector<Target> list = refilled_targets();
  std::erase_if(list, [](const Target& target) {
    return target.info->name == "dptree" && target.heap == HeapKind::pmdk &&
           target.kind == KeyKind::bytes;
  });
  return list;
}

INSTANTIATE_TEST_SUITE_P(Indexes, NearlyFull, ::testing::ValuesIn(nearly_full_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NearlyFull);

INSTANTIATE_TEST_SUITE_P(Indexes, Refilled, ::testing::ValuesIn(refilled_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Refilled);

}  // namespace
}  // namespace perdure::testing
