// Splitting a leaf of LineTree.
#include <algorithm>
#include <array>
#include <bitset>

#include "index/linetree/linetree.h"

namespace perdure {

using linetree::Growth;
using linetree::LeafImage;
using linetree::LeafInfo;
using linetree::no_slot;

/// Where a leaf is cut: what lies at or above the separator moves.
template <class Keys>
struct LineTree<Keys>::Cut {
  Key separator;
  std::bitset<linetree::most_slots> moves;  ///< slots, of live records
  Growth growth;                            ///< where the key lies that has no room
};

// In half; but where the key of the split before lay at the same end as `key`, between `key` and
// all records: ascending keys leave full leaves behind, and so do descending ones.
template <class Keys>
auto LineTree<Keys>::cut_for(const Leaf& leaf, Key key) const -> Cut {
  const LeafInfo& info = info_of(&leaf);
  const auto live = Kind::live(leaf.lowest(), info.highest());
  std::array<RecordWords, linetree::most_slots> records;
  std::array<std::uint8_t, linetree::most_slots> slots;
  unsigned count = 0;
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const RecordWords words = leaf.slot(i).load();
    records[i] = Kind::record(words);
    slots[count] = static_cast<std::uint8_t>(i);
    const bool is_live = live.holds(Kind::commit_word(words));
    count += is_live;
    if constexpr (has_text_keys<Keys>)
      if (is_live) records_.prefetch(records[i]);
  }
  PERDURE_ASSERT(count >= 2);
  const auto less = [&](std::uint8_t a, std::uint8_t b) {
    return records_.less(records[a], records[b]);
  };
  const auto key_of = [&](std::uint8_t slot) { return records_.key_of(records[slot]); };
  const auto begin = slots.begin();
  const auto end = begin + count;
  const auto middle = begin + count / 2;
  std::nth_element(begin, middle, end, less);
  const Key highest = key_of(*std::max_element(middle, end, less));
  const Key lowest = key_of(*std::min_element(begin, middle, less));
  const Growth growth = key > highest  ? Growth::above_all
                        : key < lowest ? Growth::below_all
                                       : Growth::inside;
  const bool goes_on = growth != Growth::inside && growth == info.growth.load();
  if (goes_on && growth == Growth::above_all) return {Kind::separator(highest, key), {}, growth};
  Cut cut{{}, {}, growth};
  if (goes_on) {
    cut.separator = Kind::separator(key, lowest);
    for (auto at = begin; at != end; ++at) cut.moves.set(*at);
  } else {
    const std::uint8_t below = *std::max_element(begin, middle, less);
    cut.separator = Kind::separator(key_of(below), key_of(*middle));
    for (auto at = middle; at != end; ++at) cut.moves.set(*at);
  }
  return cut;
}

// What lies above the cut is copied to a new leaf, durably; then one store of `next` shortens
// the interval of this one, and with it drops all of them here. Integers stay there as stale slots
// (L3).
// Power-cut states: the whole leaf, or both parts; of byte strings also with copies in the left
// one that are stale, which recovery empties (L6). False: out of space, nothing changed.
// Cost: the lines of the new leaf, streamed, 1 flushed line, 2 fences; of byte strings 2 of the
// leaf's own lines and 1 fence more.
template <class Keys>
bool LineTree<Keys>::split(Leaf& leaf, Key key) {
  std::array<Reservation, 2> blocks;  // the leaf, and of byte strings the blob of its lowest key
  blocks[0] = heap_.reserve(shape_.bytes());
  if (!blocks[0]) return false;
  const Cut cut = cut_for(leaf, key);
  std::uint64_t lo = 0;
  if (!linetree::draft_lowest(records_, cut.separator, lo, blocks[1])) {
    heap_.cancel(blocks[0]);
    return false;
  }
  LeafInfo& info = info_of(&leaf);
  const std::uint64_t last = info.highest();
  const auto above = Kind::live(lo, last);

  // Each record keeps its slot, so that every one finds room; then those beside their home line go
  // there where they can.
  LeafImage image(shape_, lo, Kind::empty(lo));
  image.set_next(leaf.successor());
  for (unsigned i = 1; i < shape_.slots(); ++i)
    if (cut.moves.test(i)) image.words[i] = leaf.slot(i).load();
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    if (!cut.moves.test(i)) continue;
    const std::uint64_t word = Kind::commit_word(image.words[i]);
    const unsigned home = shape_.place(Kind::Live::place_word(word)).home;
    if (home == linetree::line_of(i)) continue;
    const unsigned free = linetree::free_slot(home, above, Kind::words_of(image));
    if (free != no_slot) image.words[free] = std::exchange(image.words[i], Kind::empty(lo));
  }

  const std::uint64_t offset = blocks[0].offset;
  Leaf* const right = leaf_at(offset);
  LeafInfo& right_info = table_.add(offset);
  right_info.set(last, summarize(shape_, above, Kind::words_of(image)),
                 cut.growth == Growth::above_all ? cut.growth : Growth::inside);
  image.stream_to(shape_, *right);
  pm::fence();
  heap_.publish(std::span(blocks).first(blocks[1] ? 2 : 1), &leaf.next, offset);
  if constexpr (has_text_keys<Keys>)
    if (cut.moves.any()) drop_moved(leaf, cut);
  info.set(lo - 1, summarize(shape_, Kind::live(leaf.lowest(), lo - 1), Kind::words_of(leaf)),
           cut.growth == Growth::below_all ? cut.growth : Growth::inside);
  inner_.insert(linetree::lowest_key(records_, *right), right);
  return true;
}

// Empties what has moved, durably, before any of it can be removed from the new leaf, and its blob
// be freed (L6).
template <class Keys>
void LineTree<Keys>::drop_moved(Leaf& leaf, const Cut& cut) noexcept {
  std::uint32_t changed = 0;
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    if (!cut.moves.test(i)) continue;
    Kind::commit_of(leaf.slot(i)).store(0, std::memory_order_release);
    changed |= linetree::line_bit(linetree::line_of(i));
  }
  linetree::flush_lines(shape_, leaf, changed);
  pm::fence();
}

template bool LineTree<IntegerKeys>::split(Leaf&, std::uint64_t);
template bool LineTree<SlotKeys>::split(Leaf&, std::uint64_t);
template bool LineTree<ByteKeys>::split(Leaf&, std::string_view);

}  // namespace perdure
