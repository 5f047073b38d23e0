#include "workload/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/rng.h"

namespace perdure::workload {
namespace {

TEST(Permutation, IsABijectionForManySizes) {
  std::vector<std::uint64_t> sizes{65'535, 65'536, 65'537, 99'999, 1'000'000};
  for (std::uint64_t n = 1; n <= 700; ++n) sizes.push_back(n);
  for (const std::uint64_t n : sizes) {
    const Permutation permutation(n, n * 31 + 7);
    std::vector<bool> seen(n, false);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t value = permutation(i);
      ASSERT_LT(value, n) << n;
      ASSERT_FALSE(seen[value]) << n;
      seen[value] = true;
      ASSERT_EQ(permutation.inverse(value), i) << n;
    }
  }
}

TEST(Permutation, InvertsOnHugeDomains) {
  Rng rng(5);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t n = 1 + (rng() >> (2 + rng.below(60)));
    const Permutation permutation(n, rng());
    const std::uint64_t position = rng.below(n);
    ASSERT_LT(permutation(position), n);
    ASSERT_EQ(permutation.inverse(permutation(position)), position);
  }
}

TEST(Permutation, KeysGiveUnrelatedPermutations) {
  constexpr std::uint64_t n = 10'000;
  const Permutation a(n, 1);
  const Permutation b(n, 2);
  std::uint64_t equal = 0;
  std::uint64_t fixed = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    equal += a(i) == b(i) ? 1 : 0;
    fixed += a(i) == i ? 1 : 0;
  }
  // Each is Poisson of mean 1.
  EXPECT_LT(equal, 10U);
  EXPECT_LT(fixed, 10U);
}

TEST(Permutation, LooksRandom) {
  // Neighbours land in unrelated cells: a 16 x 16 table of (cell of p(i), cell of p(i+1)).
  constexpr std::uint64_t n = 1'000'003;
  constexpr std::uint64_t cells = 16;
  const Permutation permutation(n, 42);
  std::vector<double> count(cells * cells, 0);
  for (std::uint64_t i = 0; i + 1 < n; ++i)
    ++count[permutation(i) * cells / n * cells + permutation(i + 1) * cells / n];
  const double expected = static_cast<double>(n - 1) / (cells * cells);
  double chi_square = 0;
  for (const double c : count) chi_square += (c - expected) * (c - expected) / expected;
  const double freedom = cells * cells - 1;
  EXPECT_LT((chi_square - freedom) / std::sqrt(2 * freedom), 6);
}

}  // namespace
}  // namespace perdure::workload
