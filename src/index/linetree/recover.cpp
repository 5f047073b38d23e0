#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

#include "index/common/parallel.h"
#include "index/linetree/chain.h"
#include "index/linetree/sound_leaf.h"

namespace perdure::linetree {
namespace {

constexpr std::size_t prefetch_distance = 8;  // leaves
/// The slab heap cuts leaves from chunks of so many bytes, which hold nothing else.
constexpr std::uint64_t together = std::uint64_t{64} << 10;

/// What the walk along the chain needs of each leaf. A leaf is known only when the one before it
/// has been read, so that these misses would wait for each other. But leaves lie beside leaves:
/// where one is met, what lies around it is read as well, all at once; and other threads read on
/// from the lowest to the highest that was met. In small pools, where that gains nothing, only what
/// is asked for is read.
class Headers {
 public:
  struct Header {
    std::uint64_t next;
    std::uint64_t lo;
  };

  Headers(const Pool& pool, const Shape& shape, std::uint64_t first, unsigned threads)
      : pool_(pool), leaf_bytes_(shape.bytes()), phase_(first % leaf_bytes_) {
    constexpr std::uint64_t worth = std::uint64_t{2} << 20;  // bytes of pool: see design.md
    if (pool.extent_bytes() < worth) return;
    read_ = std::vector<std::atomic<Header*>>(pool.extent_bytes() / together + 1);
    lowest_ = highest_ = below_ = above_ = first / together;
    for (unsigned i = 1; i < threads; ++i) readers_.emplace_back([this] { read_on(); });
  }
  ~Headers() {
    ended_.store(true, std::memory_order_release);
    for (std::thread& reader : readers_) reader.join();
    for (const std::atomic<Header*>& each : read_) delete[] each.load(std::memory_order_relaxed);
  }
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;

  /// Of the leaf at an offset in the pool. For the thread that made this.
  [[nodiscard]] Header of(std::uint64_t offset) {
    if (read_.empty() || offset % leaf_bytes_ != phase_) return read(offset);
    const std::uint64_t number = offset / together;
    if (number < lowest_.load(std::memory_order_relaxed))
      lowest_.store(number, std::memory_order_release);
    if (number > highest_.load(std::memory_order_relaxed))
      highest_.store(number, std::memory_order_release);
    return around(number)[offset % together / leaf_bytes_];
  }

 private:
  [[nodiscard]] Header read(std::uint64_t offset) const noexcept {
    const Leaf& leaf = *pool_.at<Leaf>(offset);
    return {leaf.successor(), leaf.lowest()};
  }
  [[nodiscard]] const Header* around(std::uint64_t number) {
    if (const Header* const there = read_[number].load(std::memory_order_acquire)) return there;
    const std::uint64_t leaves = together / leaf_bytes_;
    std::unique_ptr<Header[]> fresh(new Header[leaves]());
    const auto for_each = [&](auto&& call) {
      for (std::uint64_t i = 0, at = number * together + phase_; i < leaves; ++i, at += leaf_bytes_)
        if (pool_.contains(at, leaf_bytes_)) call(i, at);
    };
    for_each([&](std::uint64_t, std::uint64_t at) { pm::prefetch(pool_.at<Leaf>(at)); });
    for_each([&](std::uint64_t i, std::uint64_t at) { fresh[i] = read(at); });
    Header* other = nullptr;
    if (!read_[number].compare_exchange_strong(other, fresh.get(), std::memory_order_acq_rel))
      return other;
    return fresh.release();
  }
  void read_on() {
    for (pm::Backoff backoff; !ended_.load(std::memory_order_acquire);) {
      std::uint64_t above = above_.load(std::memory_order_relaxed);
      std::uint64_t below = below_.load(std::memory_order_relaxed);
      if (above < highest_.load(std::memory_order_acquire)) {
        if (above_.compare_exchange_strong(above, above + 1)) static_cast<void>(around(above + 1));
      } else if (below > lowest_.load(std::memory_order_acquire)) {
        if (below_.compare_exchange_strong(below, below - 1)) static_cast<void>(around(below - 1));
      } else {
        backoff.wait();
      }
    }
  }

  const Pool& pool_;
  std::uint64_t leaf_bytes_;
  std::uint64_t phase_;
  std::vector<std::atomic<Header*>> read_;  ///< of each 64 KiB; null: not read
  std::atomic<std::uint64_t> lowest_{0};    ///< that the walk met
  std::atomic<std::uint64_t> highest_{0};
  std::atomic<std::uint64_t> below_{0};  ///< from here to `above_` other threads have read all
  std::atomic<std::uint64_t> above_{0};
  std::atomic<bool> ended_{false};
  std::vector<std::thread> readers_;
};

/// Recovery of a chain of one kind of records.
template <class Keys>
class Recovery {
 public:
  using Key = typename Keys::Key;

  explicit Recovery(const Chain<Keys>& chain) : chain_(chain), heap_(chain.pool.heap()) {}

  [[nodiscard]] Children<Keys>& leaves() noexcept { return leaves_; }

  /// Finds the leaves of the chain in order, with their lowest keys. These ascend, so there is no
  /// cycle (L2).
  [[nodiscard]] Result<void> walk(std::uint64_t first, unsigned threads) {
    bool has_boundary = has_text_keys<Keys>;
    Headers headers(chain_.pool, chain_.shape, first, threads);
    for (std::uint64_t at = first; at != null_offset || leaves_.empty();) {
      if (!chain_.pool.contains(at, chain_.shape.bytes()) || at % alignof(Leaf) != 0)
        return wrong("the chain leads outside the pool", at);
      Leaf* const leaf = chain_.leaf_at(at);
      const auto [next, lo] = headers.of(at);
      if (leaves_.empty() ? lo != 0 : lo == 0)
        return wrong("not the first leaf alone begins with the lowest key", at);
      if constexpr (has_text_keys<Keys>)
        if (lo != 0)
          if (Result<void> sane = chain_.records.check_blob(lo); !sane) return sane;
      const Key lowest = lowest_key(chain_.records, lo);
      if (!leaves_.empty() && !(leaves_.back().lowest < lowest))
        return wrong("the leaves' lowest keys do not ascend", at);
      has_boundary |= lo == boundary;
      leaves_.push_back({lowest, leaf});
      at = next;
    }
    if (!has_boundary) return wrong("no leaf begins at 2^63", first);
    return {};
  }

  /// The numbers of the leaves in the order of memory: then what is noted of neighbours lies
  /// together, too, and threads do not meet in it. By counting, first within 64 KiB.
  [[nodiscard]] std::vector<std::uint32_t> by_place() const {
    std::vector<std::uint32_t> order(leaves_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto sort_by = [&](std::uint64_t places, auto&& place_of) {
      std::vector<std::uint32_t> begin(places + 1);
      for (const auto& child : leaves_) ++begin[place_of(child) + 1];
      std::partial_sum(begin.begin(), begin.end(), begin.begin());
      std::vector<std::uint32_t> sorted(order.size());
      for (const std::uint32_t i : order) sorted[begin[place_of(leaves_[i])]++] = i;
      order = std::move(sorted);
    };
    sort_by(together / alignof(Leaf), [&](const auto& child) {
      return chain_.pool.offset_of(child.leaf) % together / alignof(Leaf);
    });
    sort_by(chain_.pool.extent_bytes() / together + 1,
            [&](const auto& child) { return chain_.pool.offset_of(child.leaf) / together; });
    return order;
  }

  /// Checks and marks leaf i and what it leads to, and fills its entry of the table. What has to be
  /// emptied goes to `leftovers`. For several threads, each with leaves of its own.
  [[nodiscard]] Result<void> take(std::size_t i, std::vector<LeafRecord*>& leftovers) const {
    Leaf& leaf = leaf_of(i);
    const std::uint64_t offset = chain_.pool.offset_of(&leaf);
    if (!heap_.mark(offset, chain_.shape.bytes()))
      return wrong("a leaf is no block of the heap, or is linked twice", offset);
    if constexpr (!Store::has_blobs)
      if (const auto sound = summarize_sound(chain_.shape, leaf, {leaves_[i].lowest, last_of(i)})) {
        chain_.table.add(offset).set(last_of(i), *sound);
        return {};
      }
    if constexpr (has_text_keys<Keys>) {
      if (const RecordWords lowest{key_prefix(leaves_[i].lowest), leaf.lowest()}; lowest.value != 0)
        if (Result<void> marked = chain_.records.mark(lowest); !marked) return marked;
    }
    if constexpr (Store::has_blobs)
      for (unsigned slot = 1; slot < chain_.shape.slots(); ++slot)
        chain_.records.prefetch(K::record(leaf.slot(slot).load()));
    Summary summary;  // as it is when what is left over has been emptied
    for (unsigned slot = 1; slot < chain_.shape.slots(); ++slot)
      if (Result<void> taken = take_slot(i, slot, leftovers, summary); !taken) return taken;
    chain_.table.add(offset).set(last_of(i), summary);
    return {};
  }

  void prefetch(std::size_t i) const noexcept { leaf_of(i).prefetch(chain_.shape); }

 private:
  using K = Kind<Keys>;
  using Store = RecordStore<Keys>;

  [[nodiscard]] Error wrong(const char* what, std::uint64_t offset) const {
    return damaged(chain_.pool, what, offset);
  }
  [[nodiscard]] Leaf& leaf_of(std::size_t i) const noexcept {
    return *static_cast<Leaf*>(leaves_[i].leaf);
  }
  /// V1.
  [[nodiscard]] std::uint64_t last_of(std::size_t i) const noexcept {
    if constexpr (has_text_keys<Keys>)
      return 0;
    else
      return i + 1 < leaves_.size() ? leaves_[i + 1].lowest - 1 : ~std::uint64_t{0};
  }
  [[nodiscard]] bool is_beyond(std::size_t i, const Key& key) const noexcept {
    return i + 1 < leaves_.size() && !(key < leaves_[i + 1].lowest);
  }

  [[nodiscard]] Result<void> take_slot(std::size_t i, unsigned slot,
                                       std::vector<LeafRecord*>& leftovers,
                                       Summary& summary) const {
    Leaf& leaf = leaf_of(i);
    const std::uint64_t offset = chain_.pool.offset_of(&leaf);
    const RecordWords words = leaf.slot(slot).load();
    if (K::commit_word(words) == K::commit_word(K::empty(leaf.lowest()))) return {};
    if constexpr (has_text_keys<Keys>)
      if (Result<void> sane = chain_.records.check(K::record(words)); !sane) return sane;
    const Key key = chain_.records.key_of(K::record(words));
    if (key < leaves_[i].lowest)
      return wrong("a key lies below its leaf's lowest, in the leaf", offset);
    if (is_beyond(i, key)) {
      if constexpr (has_text_keys<Keys>) leftovers.push_back(&leaf.slot(slot));  // L6
      return {};
    }
    const typename K::Probe probe(chain_.shape, key);
    const unsigned line = line_of(slot);
    if (K::commit_word(K::slot(K::record(words), probe)) != K::commit_word(words))
      return wrong("a record's tag is not its key's, in the leaf", offset);
    if (line != probe.place.home && line != probe.place.overflow())
      return wrong("a record lies in neither of its two lines, in the leaf", offset);
    if (same_key(leaf, line, slot, probe, key) != no_slot)
      return wrong("a line holds a key twice, in the leaf", offset);
    if (line != probe.place.home) {
      // What an interrupted displacement has left of a record that is in its home line, too (L4).
      if (const unsigned at = same_key(leaf, probe.place.home, slot, probe, key); at != no_slot) {
        if (leaf.value_word(at) != words.value)
          return wrong("a leaf holds a key with two values, the leaf", offset);
        leftovers.push_back(&leaf.slot(slot));
        return {};
      }
      summary.hints |= line_bit(probe.place.home);
    }
    ++summary.count;
    return chain_.records.mark(K::record(words));
  }

  /// A slot of the line, other than `but`, that holds this key; or none.
  [[nodiscard]] unsigned same_key(const Leaf& leaf, unsigned line, unsigned but,
                                  const typename K::Probe& probe, const Key& key) const {
    for (std::uint32_t found = K::candidates(leaf, line, probe); found != 0; found &= found - 1) {
      const unsigned at = line * line_slots + static_cast<unsigned>(std::countr_zero(found));
      if (at != but && is_key(leaf.slot(at).load(), key)) return at;
    }
    return no_slot;
  }

  /// Whether a candidate holds `key`. One that leads nowhere will be found so by itself.
  [[nodiscard]] bool is_key(RecordWords words, [[maybe_unused]] const Key& key) const {
    if constexpr (has_text_keys<Keys>)
      return chain_.records.check(K::record(words)).ok() &&
             chain_.records.key_of(K::record(words)) == key;
    else
      return true;
  }

  const Chain<Keys>& chain_;
  Heap& heap_;
  Children<Keys> leaves_;
};

}  // namespace

Error damaged(const Pool& pool, const char* what, std::uint64_t offset) {
  return {ErrorCode::corrupt, std::string(what) + " at offset " + std::to_string(offset),
          pool.path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

template <class Keys>
Result<Children<Keys>> recover_chain(const Chain<Keys>& chain, std::uint64_t anchor,
                                     unsigned threads) {
  if (!chain.pool.heap().mark(anchor, sizeof(Anchor)))
    return damaged(chain.pool, "the anchor is no block of the heap", anchor);
  Recovery<Keys> recovery(chain);
  Result<void> walked = recovery.walk(
      chain.pool.template at<Anchor>(anchor)->first.load(std::memory_order_acquire), threads);
  if (!walked) return walked.error();

  const std::vector<std::uint32_t> order = recovery.by_place();
  std::vector<std::vector<LeafRecord*>> leftovers(std::max(threads, 1U));
  const auto take = [&](std::size_t begin, std::size_t end, std::size_t part) -> Result<void> {
    for (std::size_t i = begin; i < end; ++i) {
      if (i + prefetch_distance < end) recovery.prefetch(order[i + prefetch_distance]);
      if (Result<void> taken = recovery.take(order[i], leftovers[part]); !taken) return taken;
    }
    return {};
  };
  Result<void> taken = in_parallel(order.size(), threads, take);
  if (!taken) return taken.error();

  // Before anything can change one of two copies (L4): else an update would hit one of them, or a
  // removal leave the other; or free what a stale slot leads to (L6). Done again after a cut, it
  // does the same.
  bool mended = false;
  for (const auto& part : leftovers)
    for (LeafRecord* const slot : part) {
      auto& commit = Kind<Keys>::commit_of(*slot);
      const RecordWords empty = Kind<Keys>::empty(commit.load(std::memory_order_relaxed));
      commit.store(Kind<Keys>::commit_word(empty), std::memory_order_release);
      pm::flush(slot, sizeof *slot);
      mended = true;
    }
  if (mended) pm::fence();
  return std::move(recovery.leaves());
}

template Result<Children<IntegerKeys>> recover_chain(const Chain<IntegerKeys>&, std::uint64_t,
                                                     unsigned);
template Result<Children<SlotKeys>> recover_chain(const Chain<SlotKeys>&, std::uint64_t, unsigned);
template Result<Children<ByteKeys>> recover_chain(const Chain<ByteKeys>&, std::uint64_t, unsigned);

}  // namespace perdure::linetree
