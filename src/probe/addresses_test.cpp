#include "probe/addresses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace perdure::probe {
namespace {

TEST(Permutation, IsABijectionForEverySize) {
  for (std::uint64_t n = 1; n < 300; ++n)
    for (const std::uint64_t key : {0ULL, 1ULL, 0xdeadbeefULL}) {
      const Permutation order(n, key);
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < n; ++i) {
        EXPECT_LT(order(i), n);
        seen.insert(order(i));
      }
      EXPECT_EQ(seen.size(), n) << "key " << key;
    }
}

TEST(Permutation, IsABijectionOfALargeRegion) {
  constexpr std::uint64_t n = 1'000'003;
  const Permutation order(n, 7);
  std::vector<bool> seen(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    ASSERT_FALSE(seen[order(i)]) << i;
    seen[order(i)] = true;
  }
}

TEST(Permutation, DependsOnItsKey) {
  const Permutation a(1 << 16, 1);
  const Permutation b(1 << 16, 2);
  std::uint64_t equal = 0;
  for (std::uint64_t i = 0; i < 1 << 16; ++i) equal += a(i) == b(i);
  EXPECT_LT(equal, 20U);  // of 65536, one is expected
}

// The first k values of a low-discrepancy sequence leave gaps of nearly equal length; of random
// ones, the longest gap is about ln k times the mean. That is what tells the two apart.
TEST(Permutation, IsNotALowDiscrepancySequence) {
  constexpr std::uint64_t n = 1 << 22;
  constexpr std::uint64_t k = 4096;
  for (const std::uint64_t key : {1ULL, 2ULL, 3ULL, 4ULL}) {
    const Permutation order(n, key);
    std::vector<std::uint64_t> first;
    for (std::uint64_t i = 0; i < k; ++i) first.push_back(order(i));
    std::ranges::sort(first);
    std::uint64_t longest = 0;
    std::uint64_t short_gaps = 0;
    for (std::uint64_t i = 1; i < k; ++i) {
      longest = std::max(longest, first[i] - first[i - 1]);
      short_gaps += first[i] - first[i - 1] < n / k / 4;
    }
    const double mean = static_cast<double>(n) / k;
    EXPECT_GT(static_cast<double>(longest), 5 * mean) << key;
    EXPECT_LT(static_cast<double>(longest), 20 * mean) << key;
    // A share of 1 - exp(-1/4) of random gaps is shorter than a quarter of the mean.
    EXPECT_NEAR(static_cast<double>(short_gaps) / k, 1 - std::exp(-0.25), 0.05) << key;
  }
}

TEST(SequentialAddresses, WalkTheSliceAndBeginAgain) {
  SequentialAddresses addresses(1000, 64, 2);  // 15 whole accesses
  for (std::uint64_t i = 2; i < 15; ++i) EXPECT_EQ(addresses.next(), i * 64);
  EXPECT_EQ(addresses.next(), 0U);
  EXPECT_EQ(addresses.next(), 64U);
  EXPECT_EQ(SequentialAddresses(1000, 64, 17).next(), 128U);
}

TEST(RandomAddresses, BeginWhereTheyAreAlignedAndEndWithinTheSlice) {
  for (const std::uint64_t apart : {64ULL, 1024ULL}) {
    RandomAddresses addresses(64 * 100, 256, apart, 5);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < (64 * 100 - 256) / apart + 1; ++i) {
      const std::uint64_t at = addresses.next();
      EXPECT_EQ(at % apart, 0U);
      EXPECT_LE(at + 256, 64U * 100);
      EXPECT_TRUE(seen.insert(at).second);
    }
  }
}

TEST(RandomAddresses, VisitEverySlotOnceARound) {
  RandomAddresses addresses(256 * 100 + 17, 256, 256, 5);
  std::vector<std::uint64_t> first;
  std::vector<std::uint64_t> second;
  for (int i = 0; i < 100; ++i) first.push_back(addresses.next());
  for (int i = 0; i < 100; ++i) second.push_back(addresses.next());
  EXPECT_NE(first, second);
  for (auto* round : {&first, &second}) {
    std::ranges::sort(*round);
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ((*round)[i], i * 256);
  }
}

TEST(StrideAddresses, StepAndMeetAllOfTheSliceInTheEnd) {
  StrideAddresses addresses(1024, 64, 256, 0);
  std::set<std::uint64_t> seen;
  for (const std::uint64_t expected : {0U, 256U, 512U, 768U, 64U, 320U, 576U, 832U}) {
    const std::uint64_t at = addresses.next();
    EXPECT_EQ(at, expected);
    seen.insert(at);
  }
  for (int i = 8; i < 16; ++i) seen.insert(addresses.next());
  EXPECT_EQ(seen.size(), 16U);
}

TEST(StrideAddresses, OverlapWhereTheStepIsShorterThanAnAccess) {
  StrideAddresses addresses(1024, 512, 64, 0);
  for (std::uint64_t at = 0; at <= 512; at += 64) EXPECT_EQ(addresses.next(), at);
  EXPECT_EQ(addresses.next(), 0U);
}

TEST(StrideAddresses, BeginWhereOthersEnded) {
  StrideAddresses whole(4096, 64, 256, 0);
  for (std::uint64_t first = 0; first < 100; ++first) {
    StrideAddresses late(4096, 64, 256, first);
    EXPECT_EQ(late.next(), whole.next()) << first;
  }
}

TEST(StrideAddresses, NeverLeaveTheSlice) {
  for (const std::uint64_t stride : {64ULL, 192ULL, 4096ULL, 1ULL << 20}) {
    StrideAddresses addresses(10'000, 512, stride, 3);
    for (int i = 0; i < 1000; ++i) EXPECT_LE(addresses.next() + 512, 10'000U) << stride;
  }
}

}  // namespace
}  // namespace perdure::probe
