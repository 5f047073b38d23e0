// k-mers: the substrings of length k of DNA, as a counter or an assembler keeps them.
//
// Integers have k = 31, two bits a base (A 0, C 1, G 2, T 3), the first base highest: below 2^62.
// Text has k = 32, a letter a base.
//
//   bases  0 .. lead-1                         lead .. k-1
//          | drawn: they decide the order      | 20 bases: the number, in random order |
//
// One key in 32 begins with a repeat of 1 to 3 bases, as satellites do. The others follow a Markov
// chain of order 1 with about 41 % G and C in which CG is rare, as it is in vertebrates. The shares
// are chosen by us in that likeness. A k-mer and its reverse complement are two keys. Ids come in
// random order.
#pragma once

#include "workload/key_set.h"
#include "workload/permutation.h"

namespace perdure::workload {

/// The k-mers of both forms; a base is a number below 4.
class Kmers {
 public:
  Kmers(unsigned length, std::uint64_t seed) noexcept;

  static constexpr unsigned unique_bases = 20;
  [[nodiscard]] std::uint64_t ids() const noexcept { return std::uint64_t{1} << 39; }
  /// The k-mer of an id, two bits a base.
  [[nodiscard]] std::uint64_t bases(std::uint64_t id) const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::uint64_t bases) const noexcept;

 private:
  [[nodiscard]] std::uint64_t lead_of(std::uint64_t unique) const noexcept;

  unsigned lead_;
  std::uint64_t key_;
  Permutation order_;
};

class KmerKeys final : public IntegerKeySet {
 public:
  explicit KmerKeys(std::uint64_t seed) noexcept : kmers_(length, seed) {}
  static constexpr unsigned length = 31;
  [[nodiscard]] std::uint64_t ids() const noexcept override { return kmers_.ids(); }
  [[nodiscard]] std::uint64_t word(std::uint64_t id) const noexcept override {
    return kmers_.bases(id);
  }
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::uint64_t word) const noexcept override {
    return kmers_.id_of(word);
  }

 private:
  Kmers kmers_;
};

class KmerTextKeys final : public TextKeySet {
 public:
  explicit KmerTextKeys(std::uint64_t seed) noexcept : kmers_(length, seed) {}
  static constexpr unsigned length = 32;
  [[nodiscard]] std::uint64_t ids() const noexcept override { return kmers_.ids(); }
  [[nodiscard]] std::size_t write(std::uint64_t id, char* out) const noexcept override;
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::string_view key) const override;
  [[nodiscard]] std::size_t longest() const noexcept override { return length; }

 private:
  Kmers kmers_;
};

}  // namespace perdure::workload
