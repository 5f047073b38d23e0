// Random keys and values that are hard on an ordered index, for tests against a model: they
// collide, tie in their first bytes, and lie at the ends of the key space.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/rng.h"
#include "index/index.h"

namespace perdure::index_test {

/// Few integers, also of slots: the lowest, the highest, those around 2^63, and some anywhere.
/// Byte strings of few distinct bytes, zero among them, after prefixes of every length: some are
/// prefixes of others.
template <class Keys>
[[nodiscard]] auto random_key(Rng& rng) {
  if constexpr (Keys::kind == KeyKind::bytes) {
    std::string key(rng.below(3) == 0 ? rng.below(12) : 0, 'p');
    if (rng.below(64) == 0) key.assign(max_key_bytes - 2, 'q');
    for (std::uint64_t n = rng.below(5); n > 0 && key.size() < max_key_bytes; --n)
      key.push_back("\0\x01z\xff"[rng.below(4)]);
    return key;
  } else {
    const std::uint64_t low = rng.below(400);
    switch (rng.below(4)) {
      case 0:
        return low;
      case 1:
        return ~low;
      case 2:
        return (std::uint64_t{1} << 63) - 200 + low;
      default:
        return mix64(low);
    }
  }
}

template <class Keys>
[[nodiscard]] auto random_value(Rng& rng) {
  if constexpr (Keys::kind == KeyKind::integer)
    return rng();
  else if constexpr (Keys::kind == KeyKind::slots)
    return std::string(rng.below(max_slot_value_bytes + 1), static_cast<char>(rng.below(256)));
  else
    return std::string(rng.below(40), static_cast<char>('a' + rng.below(26)));
}

}  // namespace perdure::index_test
