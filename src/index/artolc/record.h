// What the trie's places lead to, and a key as the bytes that the trie branches on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "index/artolc/node.h"
#include "index/index.h"
#include "index/reference/volatile_record.h"

namespace perdure::art {

/// A key's bytes in the order in which the trie sorts: of an integer, the highest first.
template <class Keys>
class Path;

template <>
class Path<IntegerKeys> {
 public:
  explicit Path(std::uint64_t key) noexcept : key_(key) {}
  [[nodiscard]] unsigned size() const noexcept { return 8; }
  [[nodiscard]] std::uint8_t operator[](unsigned i) const noexcept {
    return static_cast<std::uint8_t>(key_ >> (56 - 8 * i));
  }
  /// Eight bytes from `begin` on, the first on top; zero behind the end.
  [[nodiscard]] std::uint64_t word(unsigned begin) const noexcept {
    return begin < 8 ? key_ << 8 * begin : 0;
  }

 private:
  std::uint64_t key_;
};

template <>
class Path<ByteKeys> {
 public:
  explicit Path(std::string_view key) noexcept : key_(key) {}
  [[nodiscard]] unsigned size() const noexcept { return static_cast<unsigned>(key_.size()); }
  [[nodiscard]] std::uint8_t operator[](unsigned i) const noexcept {
    return static_cast<std::uint8_t>(key_[i]);
  }
  [[nodiscard]] std::uint64_t word(unsigned begin) const noexcept {
    std::uint64_t word = 0;
    if (begin < key_.size())
      std::memcpy(&word, key_.data() + begin, std::min<std::size_t>(8, key_.size() - begin));
    return __builtin_bswap64(word);
  }

 private:
  std::string_view key_;
};

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
