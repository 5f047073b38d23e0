// What the trie's places lead to, and a key as the bytes that the trie branches on.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "index/artolc/node.h"
#include "index/index.h"
#include "index/reference/arena_allocator.h"

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

/// A record. Its address with `record_bit` is a Child.
template <class Keys>
struct TrieRecord;

template <>
struct TrieRecord<IntegerKeys> {
  static constexpr bool updates_in_place = true;
  const std::uint64_t number;
  std::atomic<std::uint64_t> value;

  [[nodiscard]] static TrieRecord* make(StripedArena& arena, std::uint64_t key,
                                        std::uint64_t value) {
    return new (arena.allocate(sizeof(TrieRecord))) TrieRecord{key, value};
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return sizeof *this; }
  [[nodiscard]] std::uint64_t key() const noexcept { return number; }
  [[nodiscard]] Path<IntegerKeys> path() const noexcept { return Path<IntegerKeys>(number); }
  void copy_value(std::uint64_t& to) const noexcept { to = value.load(std::memory_order_acquire); }
  void append_to(IntegerScan& scan) const {
    scan.append(number, value.load(std::memory_order_acquire));
  }
};

/// Immutable: an update makes a new one. The key's bytes follow, then the value's.
template <>
struct TrieRecord<ByteKeys> {
  static constexpr bool updates_in_place = false;
  const std::uint32_t key_bytes;
  const std::uint32_t value_bytes;

  [[nodiscard]] static TrieRecord* make(StripedArena& arena, std::string_view key,
                                        std::string_view value) {
    void* const memory = arena.allocate(sizeof(TrieRecord) + key.size() + value.size());
    auto* const record = new (memory) TrieRecord{static_cast<std::uint32_t>(key.size()),
                                                 static_cast<std::uint32_t>(value.size())};
    char* const text = reinterpret_cast<char*>(record + 1);
    if (!key.empty()) std::memcpy(text, key.data(), key.size());
    if (!value.empty()) std::memcpy(text + key.size(), value.data(), value.size());
    return record;
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return sizeof *this + key_bytes + value_bytes;
  }
  [[nodiscard]] std::string_view key() const noexcept {
    return {reinterpret_cast<const char*>(this + 1), key_bytes};
  }
  [[nodiscard]] std::string_view value() const noexcept {
    return {reinterpret_cast<const char*>(this + 1) + key_bytes, value_bytes};
  }
  [[nodiscard]] Path<ByteKeys> path() const noexcept { return Path<ByteKeys>(key()); }
  void copy_value(std::string& to) const { to = value(); }
  void append_to(BytesScan& scan) const { scan.append(key(), value()); }
};

}  // namespace perdure::art
