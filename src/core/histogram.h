// A log-linear histogram of fixed size: recording is a few instructions and never allocates.
//
// Values below 128 have a bucket each; above, every power of two is cut into 64 equal buckets, so a
// bucket is at most 1/64 of its lower bound wide and its midpoint at most 0.8 % from any value in
// it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace perdure {

class Histogram {
 public:
  static constexpr unsigned sub_bucket_bits = 6;
  static constexpr std::uint64_t exact_below = 2ULL << sub_bucket_bits;  // 128
  /// Larger values (over 1.2 hours in ns) are counted in the last bucket; `max` stays exact.
  static constexpr unsigned value_bits = 42;
  static constexpr std::size_t buckets =
      ((value_bits - sub_bucket_bits) << sub_bucket_bits) + (std::size_t{1} << sub_bucket_bits);

  void record(std::uint64_t value) noexcept {
    ++count_[bucket_of(value)];
    if (value > max_) max_ = value;
    if (value < min_) min_ = value;
    sum_ += value;
  }

  void merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < buckets; ++i) count_[i] += other.count_[i];
    if (other.max_ > max_) max_ = other.max_;
    if (other.min_ < min_) min_ = other.min_;
    sum_ += other.sum_;
  }

  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : count_) sum += n;
    return sum;
  }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
  [[nodiscard]] std::uint64_t min() const noexcept { return max_ == 0 && min_ != 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }

  /// The value below or at which `share` (0..1) of the recorded values lie; within 1 % of the true
  /// one. 0 when nothing was recorded.
  [[nodiscard]] std::uint64_t quantile(double share) const noexcept {
    const std::uint64_t n = total();
    if (n == 0) return 0;
    auto rank = static_cast<std::uint64_t>(share * static_cast<double>(n) + 0.5);
    if (rank < 1) rank = 1;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
      seen += count_[i];
      if (seen >= rank) return midpoint(i) < max_ ? midpoint(i) : max_;
    }
    return max_;
  }

  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    if (value < exact_below) return value;
    if (value >> value_bits != 0) return buckets - 1;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - sub_bucket_bits - 1;
    return (static_cast<std::size_t>(shift) << sub_bucket_bits) + (value >> shift);
  }
  [[nodiscard]] static constexpr std::uint64_t lower_bound(std::size_t bucket) noexcept {
    if (bucket < exact_below) return bucket;
    const std::size_t shift = (bucket >> sub_bucket_bits) - 1;
    return ((bucket & ((1U << sub_bucket_bits) - 1)) + (1ULL << sub_bucket_bits)) << shift;
  }
  [[nodiscard]] static constexpr std::uint64_t midpoint(std::size_t bucket) noexcept {
    return bucket < exact_below ? bucket : (lower_bound(bucket) + lower_bound(bucket + 1) - 1) / 2;
  }
  [[nodiscard]] std::uint64_t count_in(std::size_t bucket) const noexcept { return count_[bucket]; }

 private:
  std::array<std::uint64_t, buckets> count_{};
  std::uint64_t max_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
  std::uint64_t sum_ = 0;
};

}  // namespace perdure
