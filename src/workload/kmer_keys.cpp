#include "workload/kmer_keys.h"

#include <array>

#include "core/assert.h"
#include "core/rng.h"
#include "workload/bijection.h"

namespace perdure::workload {
namespace {

constexpr std::uint64_t kmer_purpose = 0x4b4d4552;
constexpr std::string_view letters = "ACGT";

/// Shares of A, C, G and T in 256ths, as sums: what a byte below the first is A, and so on.
using BaseShares = std::array<unsigned, 4>;
constexpr BaseShares first_base{75, 128, 180, 256};
constexpr std::array<BaseShares, 4> after_base{{{84, 128, 189, 256},    // A
                                                {90, 157, 169, 256},    // C
                                                {74, 128, 195, 256},    // G
                                                {56, 107, 171, 256}}};  // T

unsigned base_of(std::uint64_t byte, const BaseShares& shares) noexcept {
  unsigned base = 0;
  while (byte >= shares[base]) ++base;
  return base;
}

}  // namespace

Kmers::Kmers(unsigned length, std::uint64_t seed) noexcept
    : lead_(length - unique_bases),
      key_(mix64(mix64(seed) ^ kmer_purpose)),
      order_(2 * ids(), key_) {
  PERDURE_ASSERT(length > unique_bases && length <= 32);
  PERDURE_ASSERT(order_.size() == std::uint64_t{1} << (2 * unique_bases));
}

std::uint64_t Kmers::lead_of(std::uint64_t unique) const noexcept {
  constexpr unsigned bases_per_draw = 8;
  std::uint64_t draw = mix64(unique ^ key_);
  const std::uint64_t choice = mix64(draw + golden_ratio);
  const bool repeats = choice % 32 == 0;
  const unsigned unit = 1 + static_cast<unsigned>(choice / 32 % 3);
  std::uint64_t lead = 0;
  for (unsigned i = 0; i < lead_; ++i) {
    if (i == bases_per_draw) draw = mix64(choice);
    std::uint64_t base = 0;
    if (repeats && i >= unit)
      base = lead >> (2 * (unit - 1)) & 3;
    else
      base = base_of(draw & 255, i == 0 ? first_base : after_base[lead & 3]);
    draw >>= 8;
    lead = lead << 2 | base;
  }
  return lead;
}

std::uint64_t Kmers::bases(std::uint64_t id) const noexcept {
  const SplitId split(id);
  const std::uint64_t number = split.number % ids();
  const std::uint64_t unique = order_(split.absent ? number + ids() : number);
  return lead_of(unique) << (2 * unique_bases) | unique;
}

std::optional<std::uint64_t> Kmers::id_of(std::uint64_t bases) const noexcept {
  const std::uint64_t unique = bases & (order_.size() - 1);
  if (bases >> (2 * unique_bases) != lead_of(unique)) return std::nullopt;
  const std::uint64_t number = order_.inverse(unique);
  return SplitId(number % ids(), number >= ids()).id();
}

std::size_t KmerTextKeys::write(std::uint64_t id, char* out) const noexcept {
  std::uint64_t bases = kmers_.bases(id);
  for (unsigned i = length; i-- > 0; bases >>= 2) out[i] = letters[bases & 3];
  return length;
}

std::optional<std::uint64_t> KmerTextKeys::id_of(std::string_view key) const {
  if (key.size() != length) return std::nullopt;
  std::uint64_t bases = 0;
  for (const char letter : key) {
    const std::size_t base = letters.find(letter);
    if (base == std::string_view::npos) return std::nullopt;
    bases = bases << 2 | base;
  }
  return kmers_.id_of(bases);
}

}  // namespace perdure::workload
