// LeafList::load: a chain of leaves built after the empty head and linked by one word.
#include <algorithm>
#include <array>

#include "index/common/parallel.h"
#include "index/fptree/leaf_list.h"

namespace perdure::fptree {
namespace {

/// Share of a leaf that is filled, in sixteenths: room for later inserts before the first splits.
constexpr unsigned fill_sixteenths = 13;

template <class Keys>
class Loader {
 public:
  using Key = typename Keys::Key;
  using Record = typename Keys::Record;
  using Draft = typename RecordStore<Keys>::Draft;

  Loader(Pool& pool, RecordStore<Keys>& store, unsigned entries, std::span<const Record> records)
      : pool_(pool),
        store_(store),
        entries_(entries),
        records_(records),
        fill_(std::max(1U, entries * fill_sixteenths / 16)),
        leaves_((records.size() + fill_ - 1) / fill_) {}

  [[nodiscard]] std::size_t leaves() const noexcept { return leaves_.size(); }
  [[nodiscard]] std::uint64_t offset(std::size_t leaf) const noexcept { return leaves_[leaf]; }
  [[nodiscard]] std::size_t begin_of(std::size_t leaf) const noexcept {
    return records_.size() * leaf / leaves_.size();
  }

  /// Errors: usage.
  [[nodiscard]] Result<void> check_input() const {
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const Record& record = records_[i];
      if (!store_.within_limits(record.key, record.value))
        return usage("record " + std::to_string(i) + " is too long", "shorten its key or value");
      if (i > 0 && !(records_[i - 1].key < record.key))
        return usage("record " + std::to_string(i) + " is not above the one before",
                     "sort the records and drop duplicates");
    }
    return {};
  }

  /// Builds all leaves, each published as soon as it is durable; nothing links to the first yet.
  [[nodiscard]] Result<void> build(unsigned threads) {
    Result<void> built = in_parallel(
        leaves_.size(), threads,
        [&](std::size_t begin, std::size_t end, std::size_t) { return build_range(begin, end); });
    if (!built) {
      for (const std::uint64_t leaf : leaves_)
        if (leaf != null_offset) free_leaf(leaf);
      return built;
    }
    // The last leaf of a part did not know its neighbour when it was written.
    bool joined = false;
    for (std::size_t i = 0; i + 1 < leaves_.size(); ++i) {
      auto& next = pool_.at<Leaf>(leaves_[i])->next;
      if (next.load(std::memory_order_relaxed) == leaves_[i + 1]) continue;
      next.store(leaves_[i + 1], std::memory_order_relaxed);
      pm::flush(&next, sizeof next);
      joined = true;
    }
    if (joined) pm::fence();
    return {};
  }

 private:
  [[nodiscard]] static Error usage(std::string what, std::string remedy) {
    return {ErrorCode::usage, std::move(what), "bulk load", std::move(remedy)};
  }

  [[nodiscard]] Result<void> build_range(std::size_t begin, std::size_t end) {
    std::uint64_t next = null_offset;
    for (std::size_t leaf = end; leaf-- > begin;) {
      next = build_leaf(begin_of(leaf), begin_of(leaf + 1), next);
      if (next == null_offset)
        return Error{ErrorCode::out_of_space, "the pool is full", pool_.path(),
                     "create a larger pool"};
      leaves_[leaf] = next;
    }
    return {};
  }

  // Records [begin, end) in a leaf of their own; null: out of space, and nothing is left behind.
  [[nodiscard]] std::uint64_t build_leaf(std::size_t begin, std::size_t end, std::uint64_t next) {
    std::array<Draft, max_entries> drafts;
    const std::size_t count = end - begin;
    Reservation block = pool_.heap().reserve(leaf_bytes(entries_));
    if (!block) return null_offset;
    Leaf& leaf = format_leaf(pool_, block.offset, entries_);
    std::uint64_t filled = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Record& record = records_[begin + i];
      if (!store_.draft(record.key, record.value, drafts[i])) {
        while (i-- > 0) store_.cancel(drafts[i]);
        pool_.heap().cancel(block);
        return null_offset;
      }
      const std::uint64_t hash = hash_of(record.key);
      const unsigned slot = choose_slot(~filled & all_slots(entries_), hash, entries_);
      leaf.fill_slot(slot, drafts[i].words, hash);
      filled |= bit(slot);
    }
    leaf.commit.store(filled, std::memory_order_relaxed);
    leaf.next.store(next, std::memory_order_relaxed);
    pm::persist(&leaf, leaf_bytes(entries_));
    for (std::size_t i = 0; i < count; ++i) store_.publish(drafts[i]);
    pool_.heap().publish({&block, 1});
    return block.offset;
  }

  void free_leaf(std::uint64_t offset) {
    const Leaf& leaf = *pool_.at<Leaf>(offset);
    for (std::uint64_t left = leaf.commit.load(std::memory_order_relaxed); left != 0;
         left &= left - 1)
      store_.free(leaf.record(static_cast<unsigned>(std::countr_zero(left))).load());
    pool_.heap().free(offset, leaf_bytes(entries_));
  }

  Pool& pool_;
  RecordStore<Keys>& store_;
  const unsigned entries_;
  const std::span<const Record> records_;
  const unsigned fill_;
  std::vector<std::uint64_t> leaves_;
};

}  // namespace

template <class Keys>
auto LeafList<Keys>::load(std::span<const Record> records, unsigned threads)
    -> Result<std::vector<Entry>> {
  if (head()->commit.load(std::memory_order_acquire) != 0 || next_of(*head()) != nullptr)
    return Error{ErrorCode::usage, "the index is not empty", "bulk load",
                 "load into a new index, or insert the records"};
  Loader<Keys> loader(pool_, store_, entries_, records);
  if (Result<void> sane = loader.check_input(); !sane) return sane.error();
  if (Result<void> built = loader.build(threads); !built) return built.error();
  std::vector<Entry> entries{{Key{}, head()}};
  entries.reserve(loader.leaves() + 1);
  for (std::size_t i = 0; i < loader.leaves(); ++i) {
    const std::size_t first = loader.begin_of(i);
    const Key lowest = records[first].key;
    entries.push_back({first == 0 ? lowest : separator_between(records[first - 1].key, lowest),
                       pool_.template at<Leaf>(loader.offset(i))});
  }
  if (loader.leaves() != 0) pm::store_persist(head()->next, loader.offset(0));
  return entries;
}

template auto LeafList<IntegerKeys>::load(std::span<const IntegerRecord>, unsigned)
    -> Result<std::vector<Entry>>;
template auto LeafList<ByteKeys>::load(std::span<const BytesRecord>, unsigned)
    -> Result<std::vector<Entry>>;

}  // namespace perdure::fptree
