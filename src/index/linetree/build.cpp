#include <algorithm>
#include <optional>
#include <utility>

#include "index/common/publish_batch.h"
#include "index/leaf/separator.h"
#include "index/linetree/chain.h"

namespace perdure::linetree {
namespace {

/// Leaves on their way into the pool, from left to right. A leaf is written when its successor is
/// known.
template <class Keys>
class Builder {
 public:
  using Key = typename Keys::Key;
  using Record = typename Keys::Record;
  enum class Added : std::uint8_t { yes, leaf_full, out_of_space };

  explicit Builder(const Chain<Keys>& chain) : chain_(chain), batch_(chain.pool.heap()) {}

  [[nodiscard]] Children<Keys>& children() noexcept { return children_; }
  [[nodiscard]] PublishBatch& batch() noexcept { return batch_; }

  /// Goes on with a new leaf whose lowest key is `lowest`. False: out of space.
  [[nodiscard]] bool begin(Key lowest) {
    Heap& heap = chain_.pool.heap();
    Reservation block = heap.reserve(chain_.shape.bytes());
    if (!block) return false;
    std::uint64_t lo = 0;
    Reservation blob;
    if (image_ && !draft_lowest(chain_.records, lowest, lo, blob)) {
      heap.cancel(block);
      return false;
    }
    batch_.hold(block);
    if (blob) batch_.hold(blob);
    if (image_) {
      image_->set_next(block.offset);
      write(lo - 1);
    }
    image_.emplace(chain_.shape, lo, K::empty(lo));
    records_ = 0;
    children_.push_back({lowest, chain_.leaf_at(block.offset)});
    if constexpr (has_text_keys<Keys>)
      if (lo != 0) children_.back().lowest = chain_.records.key_of({0, lo});
    return true;
  }

  /// Of integers one leaf begins at the boundary, whatever the records (L2).
  [[nodiscard]] bool begin_upper_half() {
    if constexpr (has_text_keys<Keys>)
      return true;
    else
      return begin(boundary);
  }

  /// `leaf_full`: the leaf is as full as it shall be, or has no room for this key.
  [[nodiscard]] Added add(const Record& record) {
    if (records_ == fill()) return Added::leaf_full;
    const typename K::Probe probe(chain_.shape, record.key);
    const Room room =
        find_room(chain_.shape, probe.place, live_up_to(record.key), K::words_of(*image_));
    if (room.slot == no_slot) return Added::leaf_full;
    typename RecordStore<Keys>::Draft draft;
    if (!chain_.records.draft(record.key, record.value, draft)) return Added::out_of_space;
    if constexpr (RecordStore<Keys>::has_blobs) batch_.hold(draft.block);
    for (const Move& move : room.before()) image_->words[move.to] = image_->words[move.from];
    image_->words[room.slot] = K::slot(draft.words, probe);
    ++records_;
    return Added::yes;
  }

  void finish() { write(~std::uint64_t{0}); }

  void give_back() {
    if (image_) finish();
    batch_.publish();
    for (const auto& child : children_) {
      const auto& leaf = *static_cast<const Leaf*>(child.leaf);
      if constexpr (RecordStore<Keys>::has_blobs) free_blobs(leaf);
      const std::uint64_t offset = chain_.pool.offset_of(&leaf);
      chain_.table.of(offset).forget_records();
      chain_.pool.heap().free(offset, chain_.shape.bytes());
    }
  }

 private:
  using K = Kind<Keys>;

  /// So many records a leaf gets: room for some insertions before the first splits.
  [[nodiscard]] unsigned fill() const noexcept { return chain_.shape.records() * 27 / 32; }

  // Records come in ascending order, so all before it are live in their leaf.
  [[nodiscard]] static auto live_up_to(Key key) noexcept {
    if constexpr (has_text_keys<Keys>)
      return K::live(0, 0);
    else
      return K::live(key, key);
  }

  void write(std::uint64_t last) {
    auto* const leaf = static_cast<Leaf*>(children_.back().leaf);
    chain_.table.add(chain_.pool.offset_of(leaf))
        .set(last, summarize(chain_.shape, K::live(image_->lowest(), last), K::words_of(*image_)));
    image_->stream_to(chain_.shape, *leaf);
  }

  void free_blobs(const Leaf& leaf) const noexcept {
    const std::uint64_t lo = leaf.lowest();
    if constexpr (has_text_keys<Keys>)
      if (lo != 0) chain_.records.free({0, lo});
    for (unsigned i = 1; i < chain_.shape.slots(); ++i)
      if (const RecordWords words = leaf.slot(i).load();
          K::commit_word(words) != K::commit_word(K::empty(lo)))
        chain_.records.free(K::record(words));
  }

  const Chain<Keys>& chain_;
  Children<Keys> children_;
  PublishBatch batch_;
  std::optional<LeafImage> image_;
  unsigned records_ = 0;
};

/// How many of ascending records lie below the boundary; all, of byte strings.
template <class Keys>
std::size_t records_below_boundary(std::span<const typename Keys::Record> source) noexcept {
  const auto is_below = [](const auto& record) {
    if constexpr (has_text_keys<Keys>)
      return true;
    else
      return record.key < boundary;
  };
  return static_cast<std::size_t>(std::ranges::partition_point(source, is_below) - source.begin());
}

}  // namespace

template <class Keys>
std::vector<Reservation> make_first_leaves(Pool& pool, const Shape& shape) {
  using K = Kind<Keys>;
  constexpr std::size_t count = has_text_keys<Keys> ? 1 : 2;
  std::vector<Reservation> leaves;
  while (leaves.size() < count) {
    leaves.push_back(pool.heap().reserve(shape.bytes()));
    if (leaves.back()) continue;
    leaves.pop_back();
    for (Reservation& leaf : leaves) pool.heap().cancel(leaf);
    return {};
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t lo = i * boundary;
    LeafImage image(shape, lo, K::empty(lo));
    if (i + 1 < count) image.set_next(leaves[i + 1].offset);
    image.stream_to(shape, *pool.at<Leaf>(leaves[i].offset));
  }
  return leaves;
}

template <class Keys>
Result<Children<Keys>> build_chain(const Chain<Keys>& chain, Anchor& anchor,
                                   std::span<const typename Keys::Record> source) {
  using Added = typename Builder<Keys>::Added;
  Builder<Keys> builder(chain);
  const auto out_of_space = [&]() -> Error {
    builder.give_back();
    return {ErrorCode::out_of_space, "the pool has no room for the records", chain.pool.path(),
            "create a larger pool"};
  };
  if (!builder.begin({})) return out_of_space();
  const std::size_t below = records_below_boundary<Keys>(source);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const typename Keys::Record& record = source[i];
    if (i == below && !builder.begin_upper_half()) return out_of_space();
    Added added = builder.add(record);
    if (added == Added::leaf_full) {
      // A full leaf has a record, so there is one before this.
      if (!builder.begin(Kind<Keys>::separator(source[i - 1].key, record.key)))
        return out_of_space();
      added = builder.add(record);
      PERDURE_ASSERT(added != Added::leaf_full);
    }
    if (added == Added::out_of_space) return out_of_space();
  }
  if (below == source.size() && !builder.begin_upper_half()) return out_of_space();
  builder.finish();
  auto* const first = static_cast<Leaf*>(builder.children().front().leaf);
  builder.batch().publish(&anchor.first, chain.pool.offset_of(first));
  return std::move(builder.children());
}

template std::vector<Reservation> make_first_leaves<IntegerKeys>(Pool&, const Shape&);
template std::vector<Reservation> make_first_leaves<SlotKeys>(Pool&, const Shape&);
template std::vector<Reservation> make_first_leaves<ByteKeys>(Pool&, const Shape&);
template Result<Children<IntegerKeys>> build_chain(const Chain<IntegerKeys>&, Anchor&,
                                                   std::span<const IntegerRecord>);
template Result<Children<SlotKeys>> build_chain(const Chain<SlotKeys>&, Anchor&,
                                                std::span<const SlotRecord>);
template Result<Children<ByteKeys>> build_chain(const Chain<ByteKeys>&, Anchor&,
                                                std::span<const BytesRecord>);

}  // namespace perdure::linetree
