// A keyed permutation of [0, n) for any n: a Feistel network over a rectangle that just covers n.
//
// The rectangle is a x b with a = ceil(sqrt n), b = ceil(n / a), so a*b < n + a: a value that falls
// outside n is sent through again (cycle walking), which is rare except for tiny n.
// Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace perdure::workload {

class Permutation {
 public:
  Permutation() = default;
  /// n <= 2^62. The permutations of two keys are unrelated.
  Permutation(std::uint64_t n, std::uint64_t key) noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept { return n_; }
  /// position < size().
  [[nodiscard]] std::uint64_t operator()(std::uint64_t position) const noexcept;
  /// The position that operator() sends to `value`.
  [[nodiscard]] std::uint64_t inverse(std::uint64_t value) const noexcept;

 private:
  static constexpr std::size_t round_pairs = 2;
  [[nodiscard]] std::uint64_t forward(std::uint64_t x) const noexcept;
  [[nodiscard]] std::uint64_t backward(std::uint64_t x) const noexcept;

  std::uint64_t n_ = 0;
  std::uint64_t rows_ = 1;
  std::uint64_t columns_ = 1;
  std::array<std::uint64_t, 2 * round_pairs> key_{};
};

}  // namespace perdure::workload
