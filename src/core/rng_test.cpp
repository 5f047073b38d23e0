#include "core/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <set>

namespace perdure {
namespace {

TEST(Rng, TheSameSeedAndStreamRepeat) {
  Rng a(42, 7);
  Rng b(42, 7);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(a(), b());
}

// Streams that were shifted copies or multiples of each other would share outputs, or correlate.
TEST(Rng, StreamsOfOneSeedAreIndependent) {
  constexpr unsigned streams = 16;
  constexpr std::size_t draws = 20'000;
  std::set<std::uint64_t> seen;
  std::array<std::array<std::uint64_t, draws>, streams> output;
  for (unsigned s = 0; s < streams; ++s) {
    Rng rng(1, s);
    for (std::uint64_t& word : output[s]) {
      word = rng();
      ASSERT_TRUE(seen.insert(word).second) << "two streams share an output";
    }
  }
  for (unsigned a = 0; a < streams; ++a)
    for (unsigned b = a + 1; b < streams; ++b) {
      std::int64_t differing = 0;
      for (std::size_t i = 0; i < draws; ++i)
        differing += std::popcount(output[a][i] ^ output[b][i]);
      // Binomial(64 * draws, 1/2): 6 standard deviations.
      EXPECT_LT(std::abs(static_cast<double>(differing) - 32.0 * draws),
                6 * std::sqrt(16.0 * draws))
          << a << " and " << b;
    }
}

TEST(Rng, NeighbouringSeedsDiffer) {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    for (std::uint64_t stream = 0; stream < 10; ++stream) first.insert(Rng(seed, stream)());
  EXPECT_EQ(first.size(), 10'000U);
}

TEST(Rng, BelowIsUniformAndBounded) {
  Rng rng(5);
  std::array<int, 7> count{};
  constexpr int draws = 700'000;
  for (int i = 0; i < draws; ++i) ++count.at(rng.below(7));
  double chi_square = 0;
  for (const int n : count) chi_square += (n - draws / 7.0) * (n - draws / 7.0) / (draws / 7.0);
  EXPECT_LT(chi_square, 35);  // 6 degrees of freedom: p < 1e-5
  // A bound just over 2^63 rejects almost half of all words; without that the low half would be
  // twice as likely.
  int low = 0;
  const std::uint64_t bound = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  for (int i = 0; i < 100'000; ++i) low += rng.below(bound) < bound / 2 ? 1 : 0;
  EXPECT_NEAR(low, 50'000, 1000);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rng.below(1), 0U);
}

TEST(Rng, UnitIsInsideTheHalfOpenInterval) {
  Rng rng(6);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = rng.unit();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.01);
}

TEST(Mix64, MapsDifferentInputsToDifferentOutputs) {
  std::set<std::uint64_t> outputs;
  for (std::uint64_t i = 0; i < 100'000; ++i) outputs.insert(mix64(i << 20));
  EXPECT_EQ(outputs.size(), 100'000U);
}

}  // namespace
}  // namespace perdure
