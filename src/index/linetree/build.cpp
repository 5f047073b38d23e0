#include <optional>
#include <utility>

#include "index/common/publish_batch.h"
#include "index/linetree/chain.h"

namespace perdure::linetree {
namespace {

/// Leaves on their way into the pool, from left to right. A leaf is written when its successor is
/// known.
class Builder {
 public:
  explicit Builder(const Chain& chain) : chain_(chain), batch_(chain.pool.heap()) {}

  [[nodiscard]] Children& children() noexcept { return children_; }
  [[nodiscard]] PublishBatch& batch() noexcept { return batch_; }

  /// Goes on with a new leaf whose lowest key is `lo`. False: out of space.
  [[nodiscard]] bool begin(std::uint64_t lo) {
    Reservation block = chain_.pool.heap().reserve(chain_.shape.bytes());
    if (!block) return false;
    batch_.hold(block);
    if (image_) {
      image_->set_next(block.offset);
      write(lo - 1);
    }
    image_.emplace(chain_.shape, lo);
    records_ = 0;
    children_.push_back({lo, chain_.leaf_at(block.offset)});
    return true;
  }

  /// False: the leaf is as full as it shall be, or has no room for this key.
  [[nodiscard]] bool add(const IntegerRecord& record) noexcept {
    if (records_ == fill()) return false;
    const Interval interval{image_->lowest(), record.key};
    const Place place = chain_.shape.place(record.key);
    const Room room = find_room(chain_.shape, place, interval, image_->keys());
    if (room.slot == no_slot) return false;
    if (room.displaced_to != no_slot) image_->words[room.displaced_to] = image_->words[room.slot];
    image_->words[room.slot] = {record.key, record.value};
    ++records_;
    return true;
  }

  void finish() { write(~std::uint64_t{0}); }

  void give_back() {
    batch_.publish();
    for (const auto& child : children_)
      chain_.pool.heap().free(chain_.pool.offset_of(child.leaf), chain_.shape.bytes());
  }

 private:
  /// So many records a leaf gets: room for some insertions before the first splits.
  [[nodiscard]] unsigned fill() const noexcept { return chain_.shape.records() * 27 / 32; }

  void write(std::uint64_t last) {
    auto* const leaf = static_cast<Leaf*>(children_.back().leaf);
    const Interval interval{image_->lowest(), last};
    chain_.table.add(chain_.pool.offset_of(leaf))
        .set(last, summarize(chain_.shape, interval, image_->keys()));
    image_->stream_to(chain_.shape, *leaf);
  }

  const Chain& chain_;
  Children children_;
  PublishBatch batch_;
  std::optional<LeafImage> image_;
  unsigned records_ = 0;
};

}  // namespace

std::array<Reservation, 2> make_first_leaves(Pool& pool, const Shape& shape) {
  std::array<Reservation, 2> leaves{pool.heap().reserve(shape.bytes()),
                                    pool.heap().reserve(shape.bytes())};
  if (!leaves[0] || !leaves[1]) {
    for (Reservation& leaf : leaves)
      if (leaf) pool.heap().cancel(leaf);
    return {};
  }
  LeafImage below(shape, 0);
  below.set_next(leaves[1].offset);
  below.stream_to(shape, *pool.at<Leaf>(leaves[0].offset));
  const LeafImage above(shape, boundary);
  above.stream_to(shape, *pool.at<Leaf>(leaves[1].offset));
  return leaves;
}

Result<Children> build_chain(const Chain& chain, Anchor& anchor,
                             std::span<const IntegerRecord> source) {
  Builder builder(chain);
  const auto out_of_space = [&]() -> Error {
    builder.give_back();
    return {ErrorCode::out_of_space, "the pool has no room for the records", chain.pool.path(),
            "create a larger pool"};
  };
  if (!builder.begin(0)) return out_of_space();
  bool above = false;  // the boundary has its leaf
  std::uint64_t last = 0;
  for (const IntegerRecord& record : source) {
    if (!above && record.key >= boundary) {
      if (!builder.begin(boundary)) return out_of_space();
      above = true;
    }
    if (!builder.add(record)) {
      if (!builder.begin(roundest_between(last, record.key))) return out_of_space();
      [[maybe_unused]] const bool added = builder.add(record);
      PERDURE_ASSERT(added);
    }
    last = record.key;
  }
  if (!above && !builder.begin(boundary)) return out_of_space();
  builder.finish();
  auto* const first = static_cast<Leaf*>(builder.children().front().leaf);
  builder.batch().publish(&anchor.first, chain.pool.offset_of(first));
  return std::move(builder.children());
}

}  // namespace perdure::linetree
