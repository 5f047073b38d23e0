// A key as the bytes that tries branch on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "index/index.h"

namespace perdure {

/// A key's bytes in the order in which a trie sorts: of an integer, the highest first.
template <class Keys>
class KeyPath;

template <>
class KeyPath<IntegerKeys> {
 public:
  explicit KeyPath(std::uint64_t key) noexcept : key_(key) {}
  [[nodiscard]] unsigned size() const noexcept { return 8; }
  [[nodiscard]] std::uint8_t operator[](unsigned i) const noexcept {
    return static_cast<std::uint8_t>(key_ >> (56 - 8 * i));
  }
  /// Eight bytes from `begin` on, the first on top; zero after the end.
  [[nodiscard]] std::uint64_t word(unsigned begin) const noexcept {
    return begin < 8 ? key_ << 8 * begin : 0;
  }

 private:
  std::uint64_t key_;
};

template <>
class KeyPath<ByteKeys> {
 public:
  explicit KeyPath(std::string_view key) noexcept : key_(key) {}
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

}  // namespace perdure
