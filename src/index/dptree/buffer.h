// A buffer tree of DPTree: a B+-tree in DRAM with optimistic locks over the records of one log. It
// only grows; after its merge it goes as a whole.
//
// An entry is a key word and the pool offset of the newest log record of its key. The offset's
// lowest bit is set where that is a removal, the next one where the change failed (G6), which
// searches take for no entry.
//
// F1  an entry exists <=> the log has a record of its key that counts (G6); both change under the
//     lock of the leaf that covers the key, and the record is durable before that is released.
// F2  the filter's bits of a key are set before its entry exists, and never cleared.
// F3  leaves are chained in key order, and split under their lock. The last one may be empty, where
//     its first change found no room in the log.
// F4  `garbage` holds the blobs of the log that the entries no longer lead to.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "index/common/record_store.h"
#include "index/dptree/buffer_log.h"
#include "index/inner_tree/inner_tree.h"
#include "index/leaf/word_leaf.h"
#include "pm/pm.h"

namespace perdure::dptree {

template <class Keys>
class Buffer {
 public:
  using Key = typename Keys::Key;
  using Leaf = WordLeaf<31>;
  using Entry = WordEntry;
  static constexpr std::uint64_t removal_bit = 1;
  static constexpr std::uint64_t failed_bit = 2;

  /// Entries of one leaf, or of two, and what follows them.
  struct Batch {
    std::array<Entry, 2 * std::size_t{Leaf::entries}> entry;
    unsigned count = 0;
    const Leaf* next = nullptr;  ///< null: nothing
  };

  /// Log records that are prefetched before the first is read.
  static constexpr unsigned records_ahead = 8;

  /// What a search finds: the newest log record of a key.
  struct Found {
    std::uint64_t word = 0;  ///< 0: none
    [[nodiscard]] bool any() const noexcept { return word != 0 && !has_failed(); }
    [[nodiscard]] bool is_put() const noexcept { return any() && (word & removal_bit) == 0; }
    [[nodiscard]] bool has_failed() const noexcept { return (word & failed_bit) != 0; }
  };
  struct Position {
    Leaf* leaf = nullptr;
    LeafPosition at;
    Found found;
  };

  Buffer(Pool& pool, const RecordStore<Keys>& records, Epochs& epochs, ChunkReserve& reserve,
         bool huge_pages, std::uint64_t anchor, std::uint64_t generation, std::uint64_t capacity,
         unsigned segment_records, std::uint64_t base_records);

  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  /// What its log's records are told by: two indexes in a pool may reuse each other's blocks.
  [[nodiscard]] std::uint64_t seal() const noexcept { return anchor_ << 32 ^ generation_; }
  /// Its log, with the counts and the filter of its keys.
  [[nodiscard]] BufferLog<Keys>& log() noexcept { return log_; }
  [[nodiscard]] const BufferLog<Keys>& log() const noexcept { return log_; }
  /// Bytes of DRAM it holds.
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return sizeof *this + log_.dram_bytes() + leaves_.dram_bytes() + inner_.dram_bytes();
  }

  [[nodiscard]] LogRecord* record_of(std::uint64_t word) const noexcept {
    return pool_.at<LogRecord>(word & ~(removal_bit | failed_bit));
  }
  /// The entry of `key`, whose hash this is.
  [[nodiscard]] Found find(Key key, std::uint64_t hash) const;

  /// A leaf, and its lock's word at a moment when it covered a key and was not locked.
  struct Entered {
    Leaf* leaf = nullptr;
    std::uint64_t word = 0;
  };
  [[nodiscard]] [[gnu::always_inline]] Entered enter(Key key) const;
  [[nodiscard]] Entered reenter(Key key) const;
  /// Locks the leaf that covers `key`, at best the one that `enter` has found, and says where the
  /// key is or would be.
  [[nodiscard]] [[gnu::always_inline]] Position lock(Key key, Entered at);
  [[nodiscard]] Position lock(Key key) { return lock(key, reenter(key)); }
  /// Makes sure that the leaf of a locked position has room for an entry of `key`; the position may
  /// be in another leaf then.
  void make_room(Position& position, Key key) {
    if (!position.at.present && position.leaf->count() == Leaf::entries) split(position, key);
  }
  /// The entry that was set at this position leads to the record of a change that failed (G6).
  void mark_failed(const Position& position, std::uint64_t hash) noexcept {
    Leaf& leaf = *position.leaf;
    leaf.set_word(position.at.rank, leaf.entry(position.at.rank).word | failed_bit);
    log_.recount(hash, ~std::uint64_t{0});
  }
  /// Turns the entry of a failed change at this position into a removal.
  void set_removal(const Position& position, std::uint64_t hash) noexcept {
    position.leaf->set_word(position.at.rank, (position.found.word & ~failed_bit) | removal_bit);
    log_.recount(hash, 1);
  }
  /// Sets the entry of an admitted key at a locked position that has room. Readers see it when
  /// the leaf is unlocked.
  [[gnu::always_inline]] void set(const Position& position, Key key, std::uint64_t word);
  void unlock(const Position& position) noexcept { position.leaf->lock.unlock(); }
  /// Where not even `make_room` was called, which may have moved entries away.
  void release(const Position& position) noexcept { position.leaf->lock.unlock_unchanged(); }

  /// Copies the entries of the leaf that covers `from`, those above it (or at it, `inclusive`), as
  /// they were at one moment, and goes on until there are some. None: the tree ends. Prefetches
  /// the first log records, and the next leaf where there are not as many.
  void collect(Key from, bool inclusive, Entered at, Batch& out) const;
  /// Adds those of the next leaf, or of as many as it takes. `out` holds one leaf's at most.
  void collect_more(Batch& out) const;
  /// Prefetches the log record of an entry that is soon read.
  void prefetch_ahead(const Batch& batch, unsigned at) const noexcept {
    if (at + records_ahead < batch.count)
      pm::prefetch(record_of(batch.entry[at + records_ahead].word));
    else if (batch.next != nullptr && at + records_ahead == batch.count)
      batch.next->prefetch();
  }
  /// The key of an entry; the text of a byte string lies in its blob.
  [[nodiscard]] Key key_of(const Entry& entry) const noexcept {
    if constexpr (RecordStore<Keys>::has_blobs)
      return records_.key_of(record_of(entry.word)->words());
    else
      return entry.key;
  }
  /// The record that an entry leads to.
  [[nodiscard]] RecordWords words_of(const Entry& entry) const noexcept {
    return {entry.key, record_of(entry.word)->words().value};
  }
  /// Calls visit(entry) for all, in order. No writer runs.
  template <class Visit>
  void each(Visit&& visit) const {
    const auto prefetch_records_of = [&](const Leaf& leaf) {
      for (unsigned i = 0, n = leaf.count(); i < n; ++i)
        pm::prefetch(record_of(leaf.entry(i).word));
    };
    prefetch_records_of(*first_);
    for (const Leaf *leaf = first_, *next = nullptr; leaf != nullptr; leaf = next) {
      next = leaf->next();
      if (next != nullptr) {
        if (const Leaf* after = next->next(); after != nullptr) after->prefetch();
        prefetch_records_of(*next);
      }
      for (unsigned i = 0, n = leaf->count(); i < n; ++i)
        if (!Found{leaf->entry(i).word}.has_failed()) visit(leaf->entry(i));
    }
  }

  void discard(std::uint64_t blob_word, std::uint64_t key_word);
  [[nodiscard]] std::vector<RecordWords>& garbage() noexcept { return garbage_; }
  [[nodiscard]] const std::vector<RecordWords>& garbage() const noexcept { return garbage_; }

 private:
  [[nodiscard]] static bool copy_leaf(const Leaf& leaf, std::uint64_t word, Batch& out) noexcept;
  void prefetch_records(const Batch& batch, unsigned first, unsigned end) const noexcept;
  void prefetch_after(const Batch& batch, unsigned first) const noexcept;
  template <class Stable>
  [[nodiscard]] LeafPosition search(const Leaf& leaf, Key key, Stable&& stable) const noexcept {
    return leaf.search(
        RecordStore<Keys>::key_word(key), key, [this](const Entry& entry) { return key_of(entry); },
        stable);
  }
  void split(Position& position, Key key);
  [[nodiscard]] Leaf* new_leaf() { return new (leaves_.allocate(sizeof(Leaf))) Leaf; }

  Pool& pool_;
  const RecordStore<Keys>& records_;
  const std::uint64_t anchor_;  ///< pool offset
  const std::uint64_t generation_;
  BufferLog<Keys> log_;
  NodeArena leaves_;
  Leaf* const first_;
  InnerTree<Keys> inner_;
  pm::VersionLock garbage_lock_;
  std::vector<RecordWords> garbage_;
};

template <class Keys>
inline auto Buffer<Keys>::enter(Key key) const -> Entered {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = inner_.find(key, [](void* found) {
      auto* const leaf = static_cast<Leaf*>(found);
      leaf->prefetch();
      return Entered{leaf, leaf->lock.peek()};
    });
    if (!pm::VersionLock::is_locked(at.word)) return at;
  }
}

// The search comes first: it reads the line of the lock's word as a whole, and would wait until
// that is written, and so for all flushes before. What it finds holds, as the lock is had at its
// version.
template <class Keys>
inline auto Buffer<Keys>::lock(Key key, Entered at) -> Position {
  for (pm::Backoff backoff;; backoff.wait(), at = reenter(key)) {
    pm::ReadAttempt stable(at.leaf->lock, at.word);
    const LeafPosition position = search(*at.leaf, key, stable);
    const Found found{position.present ? at.leaf->entry(position.rank).word : 0};
    if (!stable()) continue;
    if (!at.leaf->lock.try_upgrade(at.word)) continue;
    return {at.leaf, position, found};
  }
}

template <class Keys>
inline void Buffer<Keys>::set(const Position& position, Key key, std::uint64_t word) {
  Leaf& leaf = *position.leaf;
  if (position.at.present)
    leaf.set_word(position.at.rank, word);
  else
    leaf.insert_at(position.at.rank, {RecordStore<Keys>::key_word(key), word});
}

extern template class Buffer<IntegerKeys>;
extern template class Buffer<ByteKeys>;

}  // namespace perdure::dptree
