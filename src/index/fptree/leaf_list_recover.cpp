// LeafList::recover: the list after a restart, clean or not.
//
// One thread follows the `next` words; then all threads survey the leaves (bounds, tags, blobs);
// then one thread compares neighbours, ends an unfinished split and unlinks empty leaves; then all
// threads mark what remains and clear locks. Media are believed in nothing: every offset is checked
// before it is followed, and nothing is written before the whole list has been surveyed.
#include <algorithm>

#include "index/common/parallel.h"
#include "index/fptree/leaf_list.h"

namespace perdure::fptree {
namespace {

template <class Keys>
class Recovery {
 public:
  /// What is known of a leaf. Lowest and highest mean nothing where it is empty.
  struct Survey {
    Leaf* leaf = nullptr;
    std::uint64_t commit = 0;
    RecordWords lowest;
    RecordWords highest;
  };

  Recovery(Pool& pool, RecordStore<Keys>& store, unsigned entries, std::uint64_t head)
      : pool_(pool), store_(store), entries_(entries), head_(head) {}

  [[nodiscard]] Result<void> run(unsigned threads) {
    Result<void> step = walk();
    if (!step) return step;
    const auto each = [&](auto&& job) {
      return in_parallel(list_.size(), threads,
                         [&](std::size_t begin, std::size_t end, std::size_t) -> Result<void> {
                           for (std::size_t i = begin; i < end; ++i) {
                             if (i + prefetch_ahead < end)
                               prefetch_records(*list_[i + prefetch_ahead].leaf, entries_);
                             if (Result<void> done = job(list_[i]); !done) return done;
                           }
                           return {};
                         });
    };
    step = each([&](Survey& of) { return survey(of); });
    if (!step) return step;
    step = mend();
    if (!step) return step;
    return each([&](Survey& of) { return mark(of); });
  }

  [[nodiscard]] const std::vector<Survey>& list() const noexcept { return list_; }

 private:
  static constexpr std::size_t prefetch_ahead = 2;

  [[nodiscard]] Error corrupt(const char* what, std::uint64_t offset) const {
    return detail::corrupt_record(what, offset, pool_);
  }
  [[nodiscard]] Error corrupt(const char* what, const Leaf* leaf) const {
    return corrupt(what, pool_.offset_of(leaf));
  }

  [[nodiscard]] Result<void> walk() {
    const std::size_t bytes = leaf_bytes(entries_);
    const std::uint64_t most = pool_.bytes() / bytes;
    for (std::uint64_t at = head_; at != null_offset;) {
      if (!pool_.contains(at, bytes) || at % alignof(Leaf) != 0)
        return corrupt("the leaf list leads to no leaf", at);
      if (list_.size() >= most) return corrupt("the leaf list runs in a circle", at);
      Survey of;
      of.leaf = pool_.at<Leaf>(at);
      at = of.leaf->next.load(std::memory_order_relaxed);
      list_.push_back(of);
    }
    return {};
  }

  // L1, L3, and the lowest and highest record.
  [[nodiscard]] Result<void> survey(Survey& of) const {
    of.commit = of.leaf->commit.load(std::memory_order_relaxed);
    if ((of.commit & ~all_slots(entries_)) != 0)
      return corrupt("L1: a leaf has more records than slots", of.leaf);
    bool first = true;
    for (std::uint64_t left = of.commit; left != 0; left &= left - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(left));
      const RecordWords words = of.leaf->record(slot).load();
      if (Result<void> sane = store_.check(words); !sane) return sane;
      if (of.leaf->tag[slot] != fingerprint_of(store_.key_of(words)))
        return corrupt("L3: a fingerprint does not match its key", of.leaf);
      if (first || store_.less(words, of.lowest)) of.lowest = words;
      if (first || store_.less(of.highest, words)) of.highest = words;
      first = false;
    }
    return {};
  }

  // L5, L6, L8.
  [[nodiscard]] Result<void> mend() {
    std::size_t kept = 0;
    for (std::size_t i = 1; i < list_.size(); ++i) {
      if (list_[i].commit == 0) continue;  // skipped here, unlinked below
      if (list_[kept].commit != 0 && !store_.less(list_[kept].highest, list_[i].lowest))
        if (Result<void> ended = end_split(list_[kept], list_[i]); !ended) return ended;
      list_[++kept] = list_[i];
    }
    list_.resize(kept + 1);
    bool mended = false;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      Leaf& leaf = *list_[i].leaf;
      const std::uint64_t next =
          i + 1 < list_.size() ? pool_.offset_of(list_[i + 1].leaf) : null_offset;
      if (leaf.next.load(std::memory_order_relaxed) == next &&
          leaf.commit.load(std::memory_order_relaxed) == list_[i].commit)
        continue;
      leaf.next.store(next, std::memory_order_release);  // L8: one line, in this order
      leaf.commit.store(list_[i].commit, std::memory_order_release);
      pm::flush(&leaf.commit, pm::cache_line_bytes);
      mended = true;
    }
    if (mended) pm::fence();
    return {};
  }

  // The records of `left` from right's lowest on must be those that a split copied; they go.
  // Anything else is damage, and nothing is thrown away.
  [[nodiscard]] Result<void> end_split(Survey& left, const Survey& right) const {
    if (left.commit != all_slots(entries_))
      return corrupt("L5: two leaves overlap, and not by a split", left.leaf);
    std::uint64_t kept = 0;
    for (unsigned slot = 0; slot < entries_; ++slot) {
      const RecordWords words = left.leaf->record(slot).load();
      if (store_.less(words, right.lowest)) {
        if (kept == 0 || store_.less(left.highest, words)) left.highest = words;
        kept |= bit(slot);
        continue;
      }
      RecordWords copy;
      const auto key = store_.key_of(words);
      const auto trusted = [] { return true; };
      if (find_slot(*right.leaf, store_, key, hash_of(key), copy, trusted) == no_slot ||
          copy.value != words.value)
        return corrupt("L5: two leaves overlap, and not by a split", left.leaf);
    }
    if (kept == 0) return corrupt("L5: two leaves hold the same keys", left.leaf);
    left.commit = kept;
    return {};
  }

  [[nodiscard]] Result<void> mark(Survey& of) const {
    if (!pool_.heap().mark(pool_.offset_of(of.leaf), leaf_bytes(entries_)))
      return corrupt("a leaf is no block of the heap, or is linked twice", of.leaf);
    of.leaf->lock.reset();  // L7
    if constexpr (RecordStore<Keys>::has_blobs)
      for (std::uint64_t left = of.commit; left != 0; left &= left - 1) {
        const auto slot = static_cast<unsigned>(std::countr_zero(left));
        if (Result<void> marked = store_.mark(of.leaf->record(slot).load()); !marked) return marked;
      }
    return {};
  }

  Pool& pool_;
  RecordStore<Keys>& store_;
  const unsigned entries_;
  const std::uint64_t head_;
  std::vector<Survey> list_;
};

}  // namespace

template <class Keys>
auto LeafList<Keys>::recover(unsigned threads) -> Result<std::vector<Entry>> {
  Recovery<Keys> recovery(pool_, store_, entries_, head_);
  if (Result<void> done = recovery.run(threads); !done) return done.error();
  const auto& list = recovery.list();
  std::vector<Entry> entries{{Key{}, list[0].leaf}};
  entries.reserve(list.size());
  for (std::size_t i = 1; i < list.size(); ++i) {
    const Key lowest = store_.key_of(list[i].lowest);
    const bool alone = list[i - 1].commit == 0;  // the head may be empty
    entries.push_back(
        {alone ? lowest : separator_between(store_.key_of(list[i - 1].highest), lowest),
         list[i].leaf});
  }
  return entries;
}

template auto LeafList<IntegerKeys>::recover(unsigned) -> Result<std::vector<Entry>>;
template auto LeafList<ByteKeys>::recover(unsigned) -> Result<std::vector<Entry>>;

}  // namespace perdure::fptree
