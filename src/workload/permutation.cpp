#include "workload/permutation.h"

#include <cmath>

#include "core/assert.h"
#include "core/rng.h"

namespace perdure::workload {
namespace {

__extension__ using Wide = unsigned __int128;

/// A keyed word in [0, bound): one multiplication to mix, one to reduce without a division.
inline std::uint64_t round_word(std::uint64_t half, std::uint64_t key,
                                std::uint64_t bound) noexcept {
  std::uint64_t x = (half ^ key) * 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 32;
  x *= 0x94d049bb133111ebULL;
  return static_cast<std::uint64_t>((static_cast<Wide>(x) * bound) >> 64);
}

inline std::uint64_t add(std::uint64_t a, std::uint64_t b, std::uint64_t modulus) noexcept {
  const std::uint64_t sum = a + b;
  return sum >= modulus ? sum - modulus : sum;
}

inline std::uint64_t subtract(std::uint64_t a, std::uint64_t b, std::uint64_t modulus) noexcept {
  return a >= b ? a - b : a + modulus - b;
}

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t key) noexcept : n_(n) {
  PERDURE_ASSERT(n <= std::uint64_t{1} << 62);
  Rng rng(key);
  for (std::uint64_t& round_key : key_) round_key = rng();
  rows_ = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (rows_ * rows_ < n) ++rows_;
  if (rows_ == 0) rows_ = 1;
  columns_ = n == 0 ? 1 : (n + rows_ - 1) / rows_;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
  PERDURE_ASSERT(position < n_);
  std::uint64_t x = forward(position);
  while (x >= n_) x = forward(x);
  return x;
}

std::uint64_t Permutation::inverse(std::uint64_t value) const noexcept {
  PERDURE_ASSERT(value < n_);
  std::uint64_t x = backward(value);
  while (x >= n_) x = backward(x);
  return x;
}

std::uint64_t Permutation::forward(std::uint64_t x) const noexcept {
  std::uint64_t row = x / columns_;
  std::uint64_t column = x % columns_;
  for (std::size_t i = 0; i < 2 * round_pairs; i += 2) {
    row = add(row, round_word(column, key_[i], rows_), rows_);
    column = add(column, round_word(row, key_[i + 1], columns_), columns_);
  }
  return row * columns_ + column;
}

std::uint64_t Permutation::backward(std::uint64_t x) const noexcept {
  std::uint64_t row = x / columns_;
  std::uint64_t column = x % columns_;
  for (std::size_t i = 2 * round_pairs; i > 0; i -= 2) {
    column = subtract(column, round_word(row, key_[i - 1], columns_), columns_);
    row = subtract(row, round_word(column, key_[i - 2], rows_), rows_);
  }
  return row * columns_ + column;
}

}  // namespace perdure::workload
