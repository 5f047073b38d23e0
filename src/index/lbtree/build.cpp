#include <algorithm>

#include "index/common/publish_batch.h"
#include "index/lbtree/chain.h"

namespace perdure::lbtree {
namespace {

/// Leaves and blobs on their way into the pool.
template <class Keys>
class Builder {
 public:
  using Record = typename Keys::Record;
  using Draft = typename RecordStore<Keys>::Draft;

  Builder(Pool& pool, const RecordStore<Keys>& records)
      : pool_(pool), records_(records), batch_(pool.heap()) {}

  [[nodiscard]] PublishBatch& batch() noexcept { return batch_; }

  /// Puts up to `bulk_records` records into the back of `leaf`, which has no live record, and adds
  /// them to `header`. Not flushed. False: out of space.
  [[nodiscard]] bool fill(Leaf& leaf, std::span<const Record> source, Header& header) {
    unsigned slot = Leaf::entries;
    for (const Record& record : source) {
      Draft draft;
      if (!records_.draft(record.key, record.value, draft)) return false;
      if constexpr (RecordStore<Keys>::has_blobs) batch_.hold(draft.block);
      leaf.record[--slot].store(draft.words);
      header.add(slot, fingerprint_of(record.key));
    }
    return true;
  }

  /// A new leaf, or null: out of space. It is linked by its predecessor before it is filled.
  [[nodiscard]] Leaf* take() {
    Reservation block = pool_.heap().reserve(sizeof(Leaf));
    if (!block) return nullptr;
    auto* const leaf = pool_.at<Leaf>(block.offset);
    batch_.hold(block);
    leaf->format(null_offset);
    leaves_.push_back(leaf);
    return leaf;
  }

  /// Gives all blocks back, with the blobs of the first leaf, whose header is not stored.
  void give_back(const Leaf& first, const Header& first_header) {
    batch_.publish();
    free_blobs(first, first_header);
    for (const Leaf* const leaf : leaves_) {
      free_blobs(*leaf, leaf->read_header());
      pool_.heap().free(pool_.offset_of(leaf), sizeof(Leaf));
    }
  }

 private:
  void free_blobs(const Leaf& leaf, const Header& header) {
    if constexpr (RecordStore<Keys>::has_blobs) {
      for (unsigned slot = 0; slot < Leaf::entries; ++slot) {
        if ((header.live() >> slot & 1) != 0) records_.retire(leaf.record[slot].load());
      }
    }
  }

  Pool& pool_;
  const RecordStore<Keys>& records_;
  std::vector<const Leaf*> leaves_;
  PublishBatch batch_;
};

}  // namespace

template <class Keys>
Result<Children<Keys>> build_chain(Pool& pool, const RecordStore<Keys>& records, Leaf& first,
                                   std::span<const typename Keys::Record> source) {
  Builder<Keys> builder(pool, records);
  const Header before = first.read_header();
  Header first_header = before;
  first_header.flip();
  const auto out_of_space = [&]() -> Error {
    builder.give_back(first, first_header);
    return {ErrorCode::out_of_space, "the pool has no room for the records", pool.path(),
            "create a larger pool"};
  };
  Children<Keys> children;
  children.reserve(source.size() / bulk_records + 1);
  const auto part = [&](std::size_t begin) {
    return source.subspan(begin, std::min<std::size_t>(bulk_records, source.size() - begin));
  };

  children.push_back({source[0].key, &first});
  if (!builder.fill(first, part(0), first_header)) return out_of_space();
  first.store_fingerprints(before, first_header);
  Leaf* last = &first;
  std::atomic<std::uint64_t>* link = &first.sibling[first_header.alternate()];
  link->store(null_offset, std::memory_order_relaxed);
  for (std::size_t begin = bulk_records; begin < source.size(); begin += bulk_records) {
    Leaf* const leaf = builder.take();
    if (leaf == nullptr) return out_of_space();
    link->store(pool.offset_of(leaf), std::memory_order_relaxed);
    pm::flush(last, sizeof(Leaf));
    Header header;
    const bool filled = builder.fill(*leaf, part(begin), header);
    leaf->header[0].store(header.word_0, std::memory_order_relaxed);
    leaf->header[1].store(header.word_1, std::memory_order_relaxed);
    if (!filled) return out_of_space();
    last = leaf;
    link = &leaf->sibling[0];
    children.push_back({source[begin].key, leaf});
  }
  pm::flush(last, sizeof(Leaf));
  builder.batch().publish(&first.header[0], first_header.word_0);
  return children;
}

template Result<Children<IntegerKeys>> build_chain<IntegerKeys>(Pool&,
                                                                const RecordStore<IntegerKeys>&,
                                                                Leaf&,
                                                                std::span<const IntegerRecord>);
template Result<Children<ByteKeys>> build_chain<ByteKeys>(Pool&, const RecordStore<ByteKeys>&,
                                                          Leaf&, std::span<const BytesRecord>);

}  // namespace perdure::lbtree
