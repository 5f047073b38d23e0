// What the indexes on media share over their 16-byte records, in leaves or list nodes.
//
//                key word                                  value word
//   IntegerKeys  the key                                   the value
//   ByteKeys     first 8 bytes of the key, big-endian      pool offset of an immutable blob
//
//   blob: byte 0          2       4            8     8 + key_bytes
//              | key_bytes | wider | value_bytes | key | value |
//
//   wider: how many size classes its block is above the one that it needs, 0 but in full pools
//
// R1  a blob never changes once its record is visible: a new value is a new blob and one swapped
//     word.
// R2  a blob is durable and published before the word that leads to it becomes visible. A crash
//     between the two leaves a block that nothing links to, which recovery sweeps.
// R3  a replaced blob is freed after a grace period; readers are pinned, and follow an offset only
//     after they have validated that it was current.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "core/result.h"
#include "index/common/key_prefix.h"
#include "index/index.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"
#include "pool/size_classes.h"

namespace perdure {

/// The words of a record, read or about to be written.
struct RecordWords {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
};

/// A record on media.
struct LeafRecord {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;

  [[nodiscard]] [[gnu::always_inline]] RecordWords load() const noexcept {
    return {key.load(std::memory_order_acquire), value.load(std::memory_order_acquire)};
  }
  void store(RecordWords words) noexcept {
    key.store(words.key, std::memory_order_release);
    value.store(words.value, std::memory_order_release);
  }
};
static_assert(sizeof(LeafRecord) == 16);

namespace detail {
/// Folds a 128-bit product: every input bit reaches every output bit.
[[nodiscard]] inline std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}
[[nodiscard]] std::uint64_t hash_text(std::string_view text) noexcept;
[[nodiscard]] Error corrupt_record(const char* what, std::uint64_t offset, const Pool& pool);
}  // namespace detail

/// Hash of a key, all 64 bits mixed.
[[nodiscard]] inline std::uint64_t hash_of(std::uint64_t key) noexcept {
  return detail::fold(key ^ 0x9e3779b97f4a7c15ULL, 0xd6e8feb86659fd93ULL);
}
[[nodiscard]] inline std::uint64_t hash_of(std::string_view key) noexcept {
  return detail::hash_text(key);
}

/// The one-byte fingerprint of a key with this hash. On media: a change needs a new layout version.
[[nodiscard]] inline std::uint8_t fingerprint_from(std::uint64_t hash) noexcept {
  return static_cast<std::uint8_t>(hash ^ hash >> 32);
}
template <class Key>
[[nodiscard]] std::uint8_t fingerprint_of(Key key) noexcept {
  return fingerprint_from(hash_of(key));
}

/// Where a blob may go: `any` is also a block of another size class, up to 4 KiB, if no block of
/// its own can be had. For an operation that must not fail while the heap has any room.
enum class Block : std::uint8_t { fitting, any };

/// Turns keys and values into record words and back. One per index; thread-safe.
template <class Keys>
class RecordStore;

template <>
class RecordStore<IntegerKeys> {
 public:
  static constexpr bool has_blobs = false;
  struct Draft {
    RecordWords words;
  };

  RecordStore(Pool&, Epochs&) noexcept {}

  [[nodiscard]] static bool within_limits(std::uint64_t, std::uint64_t) noexcept { return true; }
  [[nodiscard]] static std::uint64_t key_word(std::uint64_t key) noexcept { return key; }

  [[nodiscard]] bool draft(std::uint64_t key, std::uint64_t value, Draft& out,
                           Block = Block::fitting) const noexcept {
    out.words = {key, value};
    return true;
  }
  void publish(Draft&) const noexcept {}
  void cancel(Draft&) const noexcept {}
  void retire(RecordWords) const noexcept {}
  void free(RecordWords) const noexcept {}

  template <class Stable>
  [[nodiscard]] bool matches(RecordWords words, std::uint64_t key, Stable&&) const noexcept {
    return words.key == key;
  }
  [[nodiscard]] bool matches(RecordWords words, std::uint64_t key) const noexcept {
    return words.key == key;
  }
  [[nodiscard]] std::uint64_t key_of(RecordWords words) const noexcept { return words.key; }
  [[nodiscard]] bool less(RecordWords a, RecordWords b) const noexcept { return a.key < b.key; }
  void read_value(RecordWords words, std::uint64_t& out) const noexcept { out = words.value; }
  void append(RecordWords words, IntegerScan& out) const { out.append(words.key, words.value); }
  void append(std::span<const RecordWords> words, IntegerScan& out) const {
    const std::span<IntegerRecord> records = out.extend(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) records[i] = {words[i].key, words[i].value};
  }
  void prefetch(RecordWords) const noexcept {}

  [[nodiscard]] Result<void> mark(RecordWords) const { return {}; }
  [[nodiscard]] Result<void> check(RecordWords) const { return {}; }
};

template <>
class RecordStore<ByteKeys> {
 public:
  static constexpr bool has_blobs = true;
  struct Draft {
    RecordWords words;
    Reservation block;
  };

  RecordStore(Pool& pool, Epochs& epochs) noexcept : pool_(pool), epochs_(epochs) {}

  [[nodiscard]] static bool within_limits(std::string_view key, std::string_view value) noexcept {
    return key.size() <= max_key_bytes && value.size() <= max_value_bytes;
  }
  [[nodiscard]] static std::uint64_t key_word(std::string_view key) noexcept {
    return key_prefix(key);
  }

  /// Writes and flushes a blob, without a fence: the caller fences it together with its record.
  /// False: out of space.
  [[nodiscard]] bool draft(std::string_view key, std::string_view value, Draft& out,
                           Block block = Block::fitting) const noexcept;
  /// Makes the blob durably allocated (R2). After the fence, before the record is visible.
  void publish(Draft& draft) const noexcept { pool_.heap().publish({&draft.block, 1}); }
  /// Gives an unpublished draft back.
  void cancel(Draft& draft) const noexcept { pool_.heap().cancel(draft.block); }
  /// Frees the blob of a record that is no longer visible, after a grace period (R3).
  void retire(RecordWords words) const;
  /// Frees the blob of a record that was never visible.
  void free(RecordWords words) const noexcept { pool_.heap().free(words.value, blob_bytes(words)); }

  /// Asks `stable()` before it follows the blob's offset, and says no when that is false: the
  /// caller validates before it believes a no.
  template <class Stable>
  [[nodiscard]] bool matches(RecordWords words, std::string_view key,
                             Stable&& stable) const noexcept {
    return words.key == key_prefix(key) && stable() && key_of(words) == key;
  }
  /// The same under the leaf's lock.
  [[nodiscard]] bool matches(RecordWords words, std::string_view key) const noexcept {
    return words.key == key_prefix(key) && key_of(words) == key;
  }

  // The words are current (validated or locked), or were while this thread has been pinned.
  [[nodiscard]] std::string_view key_of(RecordWords words) const noexcept {
    return {text(words), sizes(words).key};
  }
  [[nodiscard]] std::string_view value_of(RecordWords words) const noexcept {
    const Sizes size = sizes(words);
    return {text(words) + size.key, size.value};
  }
  [[nodiscard]] bool less(RecordWords a, RecordWords b) const noexcept {
    return a.key != b.key ? a.key < b.key : key_of(a) < key_of(b);
  }
  void read_value(RecordWords words, std::string& out) const { out.assign(value_of(words)); }
  void append(RecordWords words, BytesScan& out) const {
    out.append(key_of(words), value_of(words));
  }
  void append(std::span<const RecordWords> words, BytesScan& out) const {
    for (const RecordWords& record : words) append(record, out);
  }
  void prefetch(RecordWords words) const noexcept { pm::prefetch(pool_.base() + words.value); }

  /// Recovery: checks the blob and marks it in the heap. Errors: corrupt. Thread-safe.
  [[nodiscard]] Result<void> mark(RecordWords words) const;
  /// Checks that the words lead to a sane blob of that key. Errors: corrupt.
  [[nodiscard]] Result<void> check(RecordWords words) const;
  /// Checks that a sane blob lies at `offset`, of whatever key. Errors: corrupt.
  [[nodiscard]] Result<void> check_blob(std::uint64_t offset) const;

 private:
  struct Sizes {
    std::uint16_t key;
    std::uint16_t wider;
    std::uint32_t value;
  };
  static_assert(max_key_bytes <= std::numeric_limits<std::uint16_t>::max());
  static constexpr std::size_t header_bytes = sizeof(Sizes);

  [[nodiscard]] Sizes sizes(RecordWords words) const noexcept {
    Sizes size{};
    std::memcpy(&size, pool_.base() + words.value, sizeof size);
    return size;
  }
  [[nodiscard]] const char* text(RecordWords words) const noexcept {
    return reinterpret_cast<const char*>(pool_.base() + words.value + header_bytes);
  }
  [[nodiscard]] std::size_t blob_bytes(RecordWords words) const noexcept {
    return block_bytes(sizes(words));
  }
  [[nodiscard]] static std::size_t block_bytes(Sizes size) noexcept {
    const std::size_t needed = header_bytes + size.key + size.value;
    if (size.wider == 0) [[likely]]
      return needed;
    return size_classes::bytes_of(size_classes::class_of(needed) + size.wider);
  }

  Pool& pool_;
  Epochs& epochs_;
};

}  // namespace perdure
