// What the trie's places lead to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "index/artolc/node.h"
#include "index/common/key_path.h"
#include "index/index.h"
#include "index/reference/volatile_record.h"

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

/// What a key's record is. Its address with `record_bit` is a Child.
template <class Keys>
using TrieRecord = VolatileRecord<Keys>;

[[nodiscard]] inline Path<IntegerKeys> path_of(const NumberRecord& record) noexcept {
  return Path<IntegerKeys>(record.number);
}
[[nodiscard]] inline Path<ByteKeys> path_of(const TextRecord& record) noexcept {
  return Path<ByteKeys>(record.key());
}

}  // namespace perdure::art
