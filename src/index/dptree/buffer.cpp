#include "index/dptree/buffer.h"

#include <algorithm>
#include <bit>

namespace perdure::dptree {

BloomFilter::BloomFilter(std::uint64_t keys)
    : mask_(std::bit_ceil(std::max(least_words, keys * 10 / 64)) - 1),
      words_(std::make_unique<std::atomic<std::uint64_t>[]>(mask_ + 1)) {}

template <class Keys>
Buffer<Keys>::Buffer(Pool& pool, const RecordStore<Keys>& records, Epochs& epochs,
                     ChunkReserve& reserve, bool huge_pages, std::uint64_t anchor,
                     std::uint64_t generation, std::uint64_t capacity, unsigned segment_records,
                     std::uint64_t base_records)
    : pool_(pool),
      records_(records),
      anchor_(anchor),
      generation_(generation),
      log_(pool, capacity, segment_records, base_records),
      leaves_(reserve),
      first_(new_leaf()),
      inner_(epochs, {.entries = 15, .huge_pages = huge_pages}, first_) {}

template <class Keys>
auto Buffer<Keys>::reenter(Key key) const -> Entered {
  return enter(key);
}

template <class Keys>
auto Buffer<Keys>::find(Key key, std::uint64_t hash) const -> Found {
  if (!log_.may_have(hash)) return {};  // F2
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = reenter(key);
    pm::ReadAttempt stable(at.leaf->lock, at.word);
    const LeafPosition position = search(*at.leaf, key, stable);
    const Found found{position.present ? at.leaf->entry(position.rank).word : 0};
    if (stable()) return found;
  }
}

// Before the log record is flushed, not when the entry is set: what a split locks would wait for
// the flush. The right half is whole before anything leads to it, and locked where it is to take
// the entry. Ascending keys leave full leaves.
template <class Keys>
void Buffer<Keys>::split(Position& position, Key key) {
  Leaf& leaf = *position.leaf;
  const unsigned rank = position.at.rank;
  const bool ascending = leaf.next() == nullptr && rank == Leaf::entries;
  const unsigned middle = ascending ? Leaf::entries : Leaf::entries / 2;
  Leaf& right = *new_leaf();
  leaf.split(middle, right);
  const bool goes_right = rank > middle || ascending;
  if (goes_right) right.lock.lock_alone();
  right.set_next(leaf.next());
  leaf.set_next(&right);
  inner_.insert(ascending ? key : key_of(right.entry(0)), &right);
  if (!goes_right) return;
  leaf.lock.unlock();
  position.leaf = &right;
  position.at.rank = rank - middle;
}

/// Adds the entries of a leaf, as they are while its lock has this word. False: that has changed.
template <class Keys>
bool Buffer<Keys>::copy_leaf(const Leaf& leaf, std::uint64_t word, Batch& out) noexcept {
  unsigned copied = 0;
  for (unsigned i = 0, n = leaf.count(); i < n; ++i) {
    const Entry entry = leaf.entry(i);
    out.entry[out.count + copied] = entry;
    copied += Found{entry.word}.has_failed() ? 0 : 1;
  }
  const Leaf* const next = leaf.next();
  if (!leaf.lock.validate(word)) return false;
  out.count += copied;
  out.next = next;
  return true;
}

template <class Keys>
void Buffer<Keys>::prefetch_records(const Batch& batch, unsigned first,
                                    unsigned end) const noexcept {
  for (unsigned i = first; i < end; ++i) pm::prefetch(record_of(batch.entry[i].word));
}

template <class Keys>
void Buffer<Keys>::prefetch_after(const Batch& batch, unsigned first) const noexcept {
  prefetch_records(batch, first, std::min(batch.count, first + records_ahead));
  if (batch.count < first + records_ahead && batch.next != nullptr) batch.next->prefetch();
}

template <class Keys>
void Buffer<Keys>::collect(Key from, bool inclusive, Entered at, Batch& out) const {
  for (pm::Backoff backoff;; backoff.wait(), at = reenter(from)) {
    out.count = 0;
    if (copy_leaf(*at.leaf, at.word, out)) break;
  }
  if constexpr (RecordStore<Keys>::has_blobs) prefetch_records(out, 0, out.count);
  const std::uint64_t word = RecordStore<Keys>::key_word(from);
  const auto is_before = [&](const Entry& entry) {
    if (entry.key != word) return entry.key < word;
    const Key key = key_of(entry);
    return inclusive ? key < from : key <= from;
  };
  unsigned passed = 0;
  while (passed < out.count && is_before(out.entry[passed])) ++passed;
  std::copy(out.entry.begin() + passed, out.entry.begin() + out.count, out.entry.begin());
  out.count -= passed;
  prefetch_after(out, 0);
  if (out.count == 0) collect_more(out);
}

// What is left of the next leaf is read already, and whatever splits off a leaf goes to its right:
// so the next leaf begins where it did when it was found, and takes no lock of its neighbour's.
template <class Keys>
void Buffer<Keys>::collect_more(Batch& out) const {
  const unsigned before = out.count;
  while (out.count == before && out.next != nullptr) {
    const Leaf& leaf = *out.next;
    for (pm::Backoff backoff; !copy_leaf(leaf, leaf.lock.read_begin(), out);) backoff.wait();
  }
  prefetch_after(out, before);
}

template <class Keys>
void Buffer<Keys>::discard(std::uint64_t blob_word, std::uint64_t key_word) {
  if constexpr (RecordStore<Keys>::has_blobs) {
    const pm::LockGuard alone(garbage_lock_);
    garbage_.push_back({key_word, blob_word});
  }
}

template class Buffer<IntegerKeys>;
template class Buffer<ByteKeys>;

}  // namespace perdure::dptree
