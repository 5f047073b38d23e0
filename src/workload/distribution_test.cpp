#include "workload/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace perdure::workload {
namespace {

/// Chi-square of draws against exact probabilities, in deviations from its mean; cells expecting
/// fewer than ten draws are merged.
double surprise(const std::vector<double>& probability, int draws,
                const std::function<std::uint64_t()>& draw) {
  std::vector<double> count(probability.size(), 0);
  for (int i = 0; i < draws; ++i) {
    const std::uint64_t rank = draw();
    if (rank >= count.size()) return 1e9;
    ++count[rank];
  }
  double chi_square = 0;
  double freedom = -1;
  double expected = 0;
  double observed = 0;
  const auto close = [&] {
    if (expected > 0) chi_square += (observed - expected) * (observed - expected) / expected;
    if (expected > 0) ++freedom;
    expected = observed = 0;
  };
  for (std::size_t i = 0; i < count.size(); ++i) {
    expected += probability[i] * draws;
    observed += count[i];
    if (expected >= 10) close();
  }
  if (expected > 0 || observed > 0) close();
  return freedom <= 0 ? std::abs(chi_square) : (chi_square - freedom) / std::sqrt(2 * freedom);
}

std::vector<double> zipfian_probability(std::uint64_t n, double theta) {
  std::vector<double> p(n);
  double sum = 0;
  for (std::uint64_t r = n; r-- > 0;) sum += p[r] = std::pow(static_cast<double>(r + 1), -theta);
  for (double& x : p) x /= sum;
  return p;
}

constexpr int draws = 300'000;

TEST(Zipfian, MatchesTheExactProbabilitiesForAnyTheta) {
  for (const double theta :
       {0.01, 0.2, 0.5, 0.9, 0.99, 0.999999, 1.0, 1.000001, 1.2, 2.0, 5.0, 10.0})
    for (const std::uint64_t n : {1U, 2U, 3U, 10U, 1'000U, 50'000U}) {
      Rng rng(17, n);
      const Zipfian zipfian(n, theta);
      EXPECT_LT(surprise(zipfian_probability(n, theta), draws, [&] { return zipfian(rng); }), 6)
          << "theta " << theta << " n " << n;
    }
}

TEST(Zipfian, IsExactAfterGrowing) {
  Zipfian zipfian(10, 0.99);
  zipfian.resize(500);
  Rng rng(4);
  EXPECT_LT(surprise(zipfian_probability(500, 0.99), draws, [&] { return zipfian(rng); }), 6);
}

TEST(Zipfian, StaysInRangeAndSkewedOnHugeDomains) {
  for (const double theta : {0.5, 0.99, 1.0, 1.5, 10.0}) {
    constexpr std::uint64_t n = 1ULL << 40;
    const Zipfian zipfian(n, theta);
    Rng rng(9);
    for (int i = 0; i < 100'000; ++i) ASSERT_LT(zipfian(rng), n) << theta;
  }
  // P(rank 0) = 1 / zeta(1.5) of n = 2^40 ranks.
  const Zipfian zipfian(1ULL << 40, 1.5);
  Rng rng(10);
  int first = 0;
  for (int i = 0; i < draws; ++i) first += zipfian(rng) == 0 ? 1 : 0;
  EXPECT_NEAR(first / static_cast<double>(draws), 1 / 2.612375, 0.005);
}

TEST(Zipfian, TheTestTellsAWrongTheta) {
  Rng rng(17);
  const Zipfian zipfian(1'000, 0.97);
  EXPECT_GT(surprise(zipfian_probability(1'000, 0.99), draws, [&] { return zipfian(rng); }), 6);
}

TEST(SelfSimilar, MatchesTheExactProbabilities) {
  for (const double h : {0.01, 0.1, 0.2, 0.4, 0.5})
    for (const std::uint64_t n : {1U, 2U, 7U, 1'000U, 50'000U}) {
      const double power = std::log(1 - h) / std::log(h);
      std::vector<double> p(n);
      const auto below = [&](std::uint64_t k) {
        return std::pow(static_cast<double>(k) / static_cast<double>(n), power);
      };
      for (std::uint64_t k = 0; k < n; ++k) p[k] = below(k + 1) - below(k);
      Rng rng(23, n);
      const SelfSimilar sampler(h);
      EXPECT_LT(surprise(p, draws, [&] { return sampler(rng, n); }), 6) << "h " << h << " n " << n;
    }
}

TEST(SelfSimilar, TwentyPercentGetEighty) {
  constexpr std::uint64_t n = 100'000;
  const SelfSimilar sampler(0.2);
  Rng rng(2);
  int hot = 0;
  for (int i = 0; i < draws; ++i) hot += sampler(rng, n) < n / 5 ? 1 : 0;
  EXPECT_NEAR(hot / static_cast<double>(draws), 0.8, 0.005);
}

TEST(RankSampler, UniformIsUniform) {
  RankSampler sampler{Distribution{}};
  Rng rng(8);
  EXPECT_LT(surprise(std::vector<double>(777, 1.0 / 777), draws, [&] { return sampler(rng, 777); }),
            6);
}

}  // namespace
}  // namespace perdure::workload
