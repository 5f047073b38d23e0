// Scans of Roart: the tree in order, array by array, without a lock and without waiting. What was
// replaced meanwhile is as good as what replaced it (A4), within the range of its entry; records
// that are met twice are taken once.
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "index/roart/roart.h"

namespace perdure {

/// A node on the way down, and where to go on in it.
template <class Keys>
struct Roart<Keys>::Frame {
  const Node* node = nullptr;
  Entry entry;           ///< the next one; none: the node is through
  bool bounded = false;  ///< the scan's start lies below this node, and nothing of it was visited
};

/// Appends the records of leaf arrays, sorted, from the scan's start on.
template <class Keys>
class Roart<Keys>::Collector {
 public:
  Collector(const Roart& tree, Key from, std::size_t count, Scan& out)
      : tree_(tree), bound_(from), count_(count), out_(out) {}

  [[nodiscard]] bool is_full() const noexcept { return out_.size() == count_; }

  /// The array of an entry of `node`; `after` was the next entry before anything of it was read,
  /// and becomes the next one after it. `checked`: it may be untouched, and hold what a cut
  /// split left. False: damage.
  template <bool checked>
  [[nodiscard]] bool append(const Node& node, Entry entry, Entry& after) {
    const LeafArray& array = *tree_.array_at(entry);
    LeafArray::Words words;
    const auto used = array.used(tree_.entries_, words);
    for (const std::uint64_t word : used) {
      if constexpr (checked)
        if (!tree_.is_sane(Slot(word))) return false;
      tree_.records_.prefetch(Slot(word).offset());
    }
    unsigned kept = 0;
    for (const std::uint64_t word : used) {
      const std::uint64_t at = Slot(word).offset();
      const Item item{tree_.records_.key_of(at), at};
      if (past_bound_ ? bound_ < item.key : bound_ <= item.key) item_[kept++] = item;
    }
    std::sort(item_.begin(), item_.begin() + kept,
              [](const Item& a, const Item& b) { return a.key < b.key; });
    // A key that went and came again, in a slot further on, was seen twice.
    kept = static_cast<unsigned>(
        std::unique(item_.begin(), item_.begin() + kept,
                    [](const Item& a, const Item& b) { return a.key == b.key; }) -
        item_.begin());
    // In the middle of a split, the upper half is already elsewhere, and may have changed there.
    // What was left over is no record; the entry that tells it from one goes after it (T7).
    const Entry before = std::exchange(after, node.next(entry.symbol() + 1));
    if (const unsigned least = std::min(checked ? begin_of(before) : past_all, begin_of(after));
        least < past_all)
      while (kept > 0 && roart::symbol_at(Path(item_[kept - 1].key), node.level) >= least) --kept;
    unsigned taken = 0;
    for (; taken < kept && !is_full(); ++taken) tree_.records_.append(item_[taken].offset, out_);
    if (taken > 0) {
      bound_ = item_[taken - 1].key;  // pinned: it stays readable
      past_bound_ = true;
    }
    if (checked ? tree_.is_settled_early(array) : is_settled(array)) return true;
    for (unsigned i = 0; i < taken; ++i) tree_.records_.flush(item_[i].offset);  // A3
    pm::persist(array.word.data(), sizeof array.word);
    return true;
  }

 private:
  static constexpr unsigned past_all = roart::last_symbol + 1;
  [[nodiscard]] static unsigned begin_of(Entry entry) noexcept {
    return entry ? entry.symbol() : past_all;
  }

  struct Item {
    Key key;
    std::uint64_t offset;
  };

  const Roart& tree_;
  Key bound_;
  bool past_bound_ = false;
  const std::size_t count_;
  Scan& out_;
  std::array<Item, LeafArray::most_entries> item_;
};

template <class Keys>
std::size_t Roart<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0 || state_.is_damaged()) return 0;
  const Path path(from);
  const Epochs::Guard guard(epochs_);
  Collector collector(*this, from, count, out);
  if (!(state_.early() ? collect<true>(path, collector) : collect<false>(path, collector)))
    out.clear();
  return out.size();
}

// False: damage.
template <class Keys>
template <bool checked>
bool Roart<Keys>::collect(const Path& path, Collector& collector) const {
  constexpr std::size_t usual_depth = 16;
  std::vector<Frame> frames;
  frames.reserve(usual_depth);
  frames.push_back({root_, root_->find(roart::symbol_at(path, 0)), true});
  while (!frames.empty() && !collector.is_full()) {
    Frame& frame = frames.back();
    const Node& node = *frame.node;
    const Entry entry = frame.entry;
    const bool bounded = frame.bounded;
    if (!entry) {
      frames.pop_back();
      continue;
    }
    frame.bounded = false;
    frame.entry = node.next(entry.symbol() + 1);
    if (frame.entry && frame.entry.is_array()) array_at(frame.entry)->prefetch_slots(entries_);
    if constexpr (checked)
      if (!is_sane_child(node, entry)) return false;
    if (entry.is_array()) {
      if (!collector.template append<checked>(node, entry, frame.entry)) return false;
      continue;
    }
    const Node& below = *node_at(entry);
    const unsigned at = bounded ? below.fork_from(path, node.level) : below.level;
    if (at == below.level)
      frames.push_back({&below,
                        bounded ? below.find(roart::symbol_at(path, below.level)) : below.next(0),
                        bounded});
    else if (roart::symbol_at(path, at) < below.symbol_of(at))
      frames.push_back({&below, below.next(0), false});
  }
  return true;
}

template <class Keys>
std::uint64_t Roart<Keys>::size() const {
  if (state_.early()) finish_walk();
  if (state_.is_damaged()) return 0;
  const Epochs::Guard guard(epochs_);
  std::uint64_t records = 0;
  std::vector<Frame> frames{{root_, root_->next(0), false}};
  while (!frames.empty()) {
    Frame& frame = frames.back();
    const Entry entry = frame.entry;
    if (!entry) {
      frames.pop_back();
    } else {
      frame.entry = frame.node->next(entry.symbol() + 1);
      if (entry.is_array())
        for (unsigned i = 0; i < entries_; ++i) records += array_at(entry)->slot(i) ? 1 : 0;
      else
        frames.push_back({node_at(entry), node_at(entry)->next(0), false});
    }
  }
  return records;
}

template std::size_t Roart<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t Roart<ByteKeys>::scan(Key, std::size_t, Scan&);
template std::uint64_t Roart<IntegerKeys>::size() const;
template std::uint64_t Roart<ByteKeys>::size() const;

}  // namespace perdure
