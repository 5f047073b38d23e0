#include "core/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/rng.h"

namespace perdure {
namespace {

double error_of(std::uint64_t got, std::uint64_t exact) {
  const auto a = static_cast<double>(got);
  const auto b = static_cast<double>(exact);
  return b == 0 ? std::abs(a) : std::abs(a - b) / b;
}

TEST(Histogram, EveryValueIsWithinOnePercentOfItsBucket) {
  Rng rng(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const std::uint64_t value = rng() >> (22 + rng.below(42));  // all magnitudes below 2^42
    const std::size_t bucket = Histogram::bucket_of(value);
    ASSERT_LT(bucket, Histogram::buckets);
    ASSERT_LE(Histogram::lower_bound(bucket), value);
    ASSERT_GT(Histogram::lower_bound(bucket + 1), value);
    ASSERT_LE(error_of(Histogram::midpoint(bucket), value), 0.01) << value;
  }
}

TEST(Histogram, BucketsAreContiguousUpToTheLast) {
  for (std::size_t i = 0; i + 1 < Histogram::buckets; ++i) {
    ASSERT_LT(Histogram::lower_bound(i), Histogram::lower_bound(i + 1));
    ASSERT_EQ(Histogram::bucket_of(Histogram::lower_bound(i)), i);
    ASSERT_EQ(Histogram::bucket_of(Histogram::lower_bound(i + 1) - 1), i);
  }
  EXPECT_EQ(Histogram::bucket_of((std::uint64_t{1} << Histogram::value_bits) - 1),
            Histogram::buckets - 1);
  EXPECT_EQ(Histogram::bucket_of(~std::uint64_t{0}), Histogram::buckets - 1);
}

TEST(Histogram, QuantilesAreWithinOnePercentOfTheSortedValues) {
  for (const unsigned shift : {30U, 44U, 60U}) {
    Rng rng(2, shift);
    Histogram histogram;
    std::vector<std::uint64_t> values(100'001);
    for (std::uint64_t& value : values) {
      value = (rng() >> shift) >> rng.below(4);
      histogram.record(value);
    }
    std::ranges::sort(values);
    for (const double share : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
      const auto rank = static_cast<std::uint64_t>(share * 100'001 + 0.5);
      const std::uint64_t exact = values[std::max<std::uint64_t>(rank, 1) - 1];
      EXPECT_LE(error_of(histogram.quantile(share), exact), 0.01) << share << " of " << shift;
    }
    EXPECT_EQ(histogram.total(), values.size());
    EXPECT_EQ(histogram.max(), values.back());
    EXPECT_EQ(histogram.min(), values.front());
  }
}

TEST(Histogram, MergingIsRecordingInOne) {
  Rng rng(3);
  Histogram all;
  Histogram parts[3];
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t value = rng.below(1 << 20);
    all.record(value);
    parts[i % 3].record(value);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.merge(part);
  for (std::size_t i = 0; i < Histogram::buckets; ++i)
    ASSERT_EQ(merged.count_in(i), all.count_in(i));
  EXPECT_EQ(merged.max(), all.max());
  EXPECT_EQ(merged.min(), all.min());
  EXPECT_EQ(merged.sum(), all.sum());
}

TEST(Histogram, AnEmptyOneAnswersZeroAndMergesAsNothing) {
  Histogram empty;
  EXPECT_EQ(empty.quantile(0.99), 0U);
  EXPECT_EQ(empty.total(), 0U);
  EXPECT_EQ(empty.max(), 0U);
  Histogram one;
  one.record(5);
  one.merge(empty);
  EXPECT_EQ(one.min(), 5U);
  EXPECT_EQ(one.quantile(0.5), 5U);
}

}  // namespace
}  // namespace perdure
