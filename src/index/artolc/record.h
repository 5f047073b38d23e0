// What the trie's places lead to.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>

#include "index/artolc/node.h"
#include "index/index.h"
#include "index/record/key_path.h"
#include "index/reference/arena_allocator.h"
#include "index/reference/text_record.h"

namespace perdure::art {

template <class Keys>
using Path = KeyPath<Keys>;

/// The first `bytes` of a word's bytes from the top, the others zero.
[[nodiscard]] constexpr std::uint64_t first_bytes(std::uint64_t word, unsigned bytes) noexcept {
  return bytes >= 8 ? word : word & ~(~std::uint64_t{0} >> 8 * bytes);
}

/// How many bytes two paths share from `begin` on.
template <class Keys>
[[nodiscard]] unsigned common_bytes(const Path<Keys>& a, const Path<Keys>& b,
                                    unsigned begin) noexcept {
  const unsigned most = std::min(a.size(), b.size());
  unsigned at = begin;
  while (at < most && a[at] == b[at]) ++at;
  return at - begin;
}

/// A record of an integer key.
struct NumberRecord {
  const std::uint64_t number;
  std::atomic<std::uint64_t> value;

  [[nodiscard]] static NumberRecord* make(StripedArena& arena, std::uint64_t key,
                                          std::uint64_t value) {
    return new (arena.allocate(sizeof(NumberRecord))) NumberRecord{key, value};
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return sizeof *this; }
  [[nodiscard]] std::uint64_t key() const noexcept { return number; }
};

/// What a key's record is. Its address with `record_bit` is a Child.
template <class Keys>
using TrieRecord = std::conditional_t<Keys::kind == KeyKind::integer, NumberRecord, TextRecord>;

[[nodiscard]] inline Path<IntegerKeys> path_of(const NumberRecord& record) noexcept {
  return Path<IntegerKeys>(record.number);
}
[[nodiscard]] inline Path<ByteKeys> path_of(const TextRecord& record) noexcept {
  return Path<ByteKeys>(record.key());
}
[[nodiscard]] inline std::uint64_t value_of(const NumberRecord& record) noexcept {
  return record.value.load(std::memory_order_acquire);
}
[[nodiscard]] inline std::string_view value_of(const TextRecord& record) noexcept {
  return record.value();
}

}  // namespace perdure::art
