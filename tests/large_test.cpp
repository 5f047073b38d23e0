// Ten million keys, once: two threads insert in random order, look up, remove, and recovery finds
// it.
#include <gtest/gtest.h>

#include <thread>

#include "support/bed.h"
#include "support/samples.h"

namespace perdure::testing {
namespace {

std::vector<Target> large_targets() {
  auto list = pool_targets();
  std::erase_if(list, [](const Target& target) {
    return target.heap != HeapKind::slab || target.kind != KeyKind::integer ||
           !target.info->ordered || target.info->is_linear;
  });
  return list;
}

class Large : public ::testing::TestWithParam<Target> {};

/// Runs `work(i)` for i in [0, count) on two threads; false from any stops it.
template <class Work>
bool on_two_threads(std::uint64_t count, Work&& work) {
  bool fine[2] = {true, true};
  const auto half = [&](std::uint64_t first) {
    for (std::uint64_t i = first; i < count && fine[first]; i += 2) fine[first] = work(i);
  };
  std::thread other(half, 1);
  half(0);
  other.join();
  return fine[0] && fine[1];
}

void check_scan(IntegerIndex& index, std::uint64_t expected) {
  IntegerScan scan;
  std::uint64_t from = 0;
  std::uint64_t seen = 0;
  for (;;) {
    scan.clear();
    index.scan(from, 1000, scan);
    for (std::size_t i = 0; i < scan.size(); ++i) {
      ASSERT_EQ(scan[i].value, ~scan[i].key);
      ASSERT_TRUE(i == 0 || scan[i - 1].key < scan[i].key);
    }
    seen += scan.size();
    if (scan.size() < 1000 || scan[999].key == ~0ULL) break;
    from = scan[999].key + 1;
  }
  ASSERT_EQ(seen, expected);
}

TEST_P(Large, ten_million_keys_are_kept_and_recovered) {
  const std::uint64_t records = scaled(10'000'000, 10'000);
  BedOptions options;
  options.pool_bytes = (64ULL << 20) + records * 48;
  auto made = Bed<IntegerKeys>::create(GetParam(), options);
  ASSERT_TRUE(made.ok()) << made.error().line();
  Bed<IntegerKeys>& bed = *made.value();
  ASSERT_TRUE(on_two_threads(records, [&](std::uint64_t i) {
    return bed.index().insert(mix64(i), ~mix64(i)) == Outcome::ok;
  }));
  ASSERT_EQ(bed.index().size(), records);
  ASSERT_TRUE(on_two_threads(records, [&](std::uint64_t i) {
    std::uint64_t value = 0;
    return bed.index().lookup(mix64(i), value) == Outcome::ok && value == ~mix64(i);
  }));
  check_scan(bed.index(), records);
  ASSERT_TRUE(on_two_threads(
      records / 2, [&](std::uint64_t i) { return bed.index().remove(mix64(i)) == Outcome::ok; }));
  const auto reopened = bed.reopen(Reopen::crash);
  ASSERT_TRUE(reopened.ok()) << reopened.error().line();
  const auto sound = bed.index().check_invariants();
  ASSERT_TRUE(sound.ok()) << sound.error().line();
  ASSERT_TRUE(on_two_threads(records, [&](std::uint64_t i) {
    std::uint64_t value = 0;
    const Outcome outcome = bed.index().lookup(mix64(i), value);
    return outcome == (i < records / 2 ? Outcome::not_found : Outcome::ok);
  }));
  check_scan(bed.index(), records - records / 2);
}

INSTANTIATE_TEST_SUITE_P(Indexes, Large, ::testing::ValuesIn(large_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Large);

}  // namespace
}  // namespace perdure::testing
