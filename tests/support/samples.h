// Keys and values for tests, the same vocabulary for both kinds of keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/rng.h"
#include "index/index.h"

namespace perdure::testing {

/// What a set of keys looks like. Each is hard on something else.
enum class Shape {
  dense,        ///< neighbours without a gap
  adversarial,  ///< 0, 2^64-1, around 2^63; "", "\0", long shared prefixes, 2048 B
  random,       ///< all over the key space
};
[[nodiscard]] const char* name_of(Shape shape) noexcept;

template <class Keys>
struct Samples;

template <>
struct Samples<IntegerKeys> {
  using Key = std::uint64_t;
  using Value = std::uint64_t;

  /// `size` distinct keys in no order.
  [[nodiscard]] static std::vector<Key> universe(Shape shape, std::size_t size, Rng& rng);
  /// An order-preserving image of small numbers: i < j <=> numbered(i) < numbered(j).
  [[nodiscard]] static Key numbered(std::uint64_t i) { return (i << 20) ^ (1ULL << 63); }
  [[nodiscard]] static std::uint64_t number_of(Key key) { return (key ^ (1ULL << 63)) >> 20; }
  [[nodiscard]] static Value value(Rng& rng) { return rng(); }
  /// A value that carries `stamp`; `stamp_of` gets it back, or `bad_stamp` when it is torn.
  [[nodiscard]] static Value stamped(std::uint64_t stamp) { return stamp; }
  [[nodiscard]] static std::uint64_t stamp_of(Value value) { return value; }
  [[nodiscard]] static std::string show(Key key) { return std::to_string(key); }
};

/// The keys of IntegerKeys, values as of ByteKeys, as long as a slot takes.
template <>
struct Samples<SlotKeys> : Samples<IntegerKeys> {
  using Value = std::string;

  [[nodiscard]] static Value value(Rng& rng);
  [[nodiscard]] static Value stamped(std::uint64_t stamp);
  [[nodiscard]] static std::uint64_t stamp_of(std::string_view value);
};

template <>
struct Samples<ByteKeys> {
  using Key = std::string;
  using Value = std::string;

  [[nodiscard]] static std::vector<Key> universe(Shape shape, std::size_t size, Rng& rng);
  [[nodiscard]] static Key numbered(std::uint64_t i);
  [[nodiscard]] static std::uint64_t number_of(std::string_view key);
  /// Mostly short, sometimes empty, now and then the longest allowed.
  [[nodiscard]] static Value value(Rng& rng);
  /// Length and content follow from the stamp, so that any torn mixture of two is recognised.
  [[nodiscard]] static Value stamped(std::uint64_t stamp);
  [[nodiscard]] static std::uint64_t stamp_of(std::string_view value);
  [[nodiscard]] static std::string show(std::string_view key);
};

/// The key of the i-th insert, up to 2^24: neighbours go far apart.
template <class Keys>
[[nodiscard]] typename Samples<Keys>::Key scattered_key(std::uint64_t i) {
  return Samples<Keys>::numbered((i * 2654435761U) & ((1U << 24) - 1));
}

inline constexpr std::uint64_t bad_stamp = ~std::uint64_t{0};

}  // namespace perdure::testing
