#include "workload/ipv4_keys.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/rng.h"
#include "workload/bijection.h"

namespace perdure::workload {
namespace {

constexpr std::uint64_t ipv4_purpose = 0x49505634;
constexpr std::size_t parts = 256;
constexpr std::size_t used_networks = 221;

/// The first octets that hosts have: all but 0, 10, 127 and 224 to 255.
constexpr std::array<std::uint8_t, used_networks> make_octets() {
  std::array<std::uint8_t, used_networks> octets{};
  std::size_t count = 0;
  for (unsigned octet = 1; octet < 224; ++octet)
    if (octet != 10 && octet != 127) octets[count++] = static_cast<std::uint8_t>(octet);
  return octets;
}
constexpr std::array<std::uint8_t, used_networks> octets = make_octets();

/// How many addresses the ranks before a given one hold together.
template <std::size_t ranks>
using Sums = std::array<std::uint64_t, ranks + 1>;

std::uint64_t used_of(std::size_t rank, double exponent) {
  return static_cast<std::uint64_t>(parts * std::pow(static_cast<double>(rank + 1), -exponent));
}

/// The shape that every network of a length has.
struct Shape {
  Sums<parts> of_24{};         ///< in a /16, by rank of the /24
  Sums<parts> of_16{};         ///< in a /8, by rank of the /16
  Sums<used_networks> of_8{};  ///< in all, by rank of the /8

  Shape() {
    for (std::size_t r = 0; r < parts; ++r) of_24[r + 1] = of_24[r] + used_of(r, 0.1);
    for (std::size_t r = 0; r < parts; ++r) of_16[r + 1] = of_16[r] + of_24[used_of(r, 0.15)];
    for (std::size_t r = 0; r < used_networks; ++r) of_8[r + 1] = of_8[r] + of_16[used_of(r, 0.6)];
  }
  [[nodiscard]] std::uint64_t addresses() const noexcept { return of_8.back(); }
};

const Shape& shape() {
  static const Shape shape;
  return shape;
}

/// Takes from `place` what the ranks before its own hold; returns the rank.
template <std::size_t size>
std::size_t take_rank(const std::array<std::uint64_t, size>& sums, std::uint64_t& place) noexcept {
  const auto after = std::upper_bound(sums.begin(), sums.end(), place);
  const auto rank = static_cast<std::size_t>(after - sums.begin()) - 1;
  place -= sums[rank];
  return rank;
}

}  // namespace

Ipv4Keys::Ipv4Keys(std::uint64_t seed) noexcept
    : key_(mix64(mix64(seed) ^ ipv4_purpose)),
      order_(shape().addresses(), key_),
      networks_(used_networks, mix64(key_)) {}

std::uint64_t Ipv4Keys::ids() const noexcept { return order_.size() / 4 * 3; }
std::uint64_t Ipv4Keys::absent_ids() const noexcept { return order_.size() - ids(); }

std::uint64_t Ipv4Keys::word(std::uint64_t id) const noexcept {
  const SplitId split(id);
  std::uint64_t place =
      order_(split.absent ? ids() + split.number % absent_ids() : split.number % ids());
  std::uint64_t address = octets[networks_(take_rank(shape().of_8, place))];
  for (const Sums<parts>* sums : {&shape().of_16, &shape().of_24}) {
    const SmallShuffle order(8, mix64(address ^ key_));
    address = address << 8 | order(take_rank(*sums, place));
  }
  return address << 8 | SmallShuffle(8, mix64(address ^ key_))(place);
}

std::optional<std::uint64_t> Ipv4Keys::id_of(std::uint64_t word) const noexcept {
  if (word >> 32 != 0) return std::nullopt;
  const auto rank_of = [&](unsigned shift) {
    return SmallShuffle(8, mix64(word >> (shift + 8) ^ key_)).inverse(word >> shift & 255);
  };
  const auto octet = std::lower_bound(octets.begin(), octets.end(), word >> 24);
  if (octet == octets.end() || *octet != word >> 24) return std::nullopt;
  const auto& [of_24, of_16, of_8] = shape();
  const std::uint64_t rank_8 =
      networks_.inverse(static_cast<std::uint64_t>(octet - octets.begin()));
  const std::uint64_t rank_16 = rank_of(16);
  const std::uint64_t rank_24 = rank_of(8);
  const std::uint64_t host = rank_of(0);
  // A network ends where its sum does: what lies beyond is not in use.
  std::uint64_t place = host;
  if (place >= of_24[rank_24 + 1] - of_24[rank_24]) return std::nullopt;
  place += of_24[rank_24];
  if (place >= of_16[rank_16 + 1] - of_16[rank_16]) return std::nullopt;
  place += of_16[rank_16];
  if (place >= of_8[rank_8 + 1] - of_8[rank_8]) return std::nullopt;
  place += of_8[rank_8];
  const std::uint64_t number = order_.inverse(place);
  return number < ids() ? SplitId(number, false).id() : SplitId(number - ids(), true).id();
}

}  // namespace perdure::workload
