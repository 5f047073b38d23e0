// How nodes are taken apart and made.
#include "index/hot/trie.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <type_traits>

#include "core/assert.h"

namespace perdure::hot {
namespace {

/// Appends the position of each bit of `mask`, whose bytes come from where `byte_of` says.
template <class ByteOf>
unsigned list_positions(std::uint64_t mask, std::uint16_t* to, ByteOf&& byte_of) noexcept {
  unsigned count = 0;
  while (mask != 0) {
    const auto at = static_cast<unsigned>(std::countl_zero(mask));
    to[count++] = static_cast<std::uint16_t>(8 * byte_of(at / 8) + at % 8);
    mask &= ~(std::uint64_t{1} << (63 - at));
  }
  return count;
}

[[nodiscard]] constexpr unsigned width_for(unsigned bits) noexcept {
  return bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
}

template <class Word>
void widen(const std::byte* from, unsigned count, std::uint32_t* to) noexcept {
  const auto* const keys = reinterpret_cast<const Word*>(from);
  for (unsigned i = 0; i < count; ++i) to[i] = keys[i];
}

template <class Word>
void narrow(const std::uint32_t* from, unsigned count, std::byte* to) noexcept {
  auto* const keys = reinterpret_cast<Word*>(to);
  for (unsigned i = 0; i < count; ++i) keys[i] = static_cast<Word>(from[i]);
}

/// How partial keys make room for a bit, and where the new entry goes among them.
struct Extension {
  std::uint32_t high;   ///< the bits that move up by one place
  std::uint32_t value;  ///< of the new entry's branch
  bool one;
  Node::Range range;  ///< the entries on the other side of the branch
  [[nodiscard]] unsigned at() const noexcept { return one ? range.end : range.first; }
};

template <class Lane>
constexpr auto lanes = [] {
  std::array<Lane, max_entries> numbers{};
  for (unsigned i = 0; i < max_entries; ++i) numbers[i] = static_cast<Lane>(i);
  return numbers;
}();

// All places, whatever comes after the last key, and by masks in place of branches: the compiler
// makes it vector instructions. Reads one key before the first, which are the masks' bytes, and
// writes past the last, where the entries go after it.
template <class Old, class New>
void extend_keys(const std::byte* old_keys, const Extension& by, std::byte* new_keys) noexcept {
  using Lane = std::make_signed_t<New>;
  const auto* const here = reinterpret_cast<const Old*>(old_keys);
  const auto* const before = here - 1;
  auto* const __restrict to = reinterpret_cast<New*>(new_keys);
  const auto mask = [](bool condition) { return static_cast<New>(-condition); };
  const auto high = static_cast<New>(by.high);
  const auto value = static_cast<New>(by.value);
  const auto wider = [&](New key) { return static_cast<New>(key + (key & high)); };
  const auto above = static_cast<New>(~(value | (value - 1)));
  const auto fresh = static_cast<New>((wider(here[by.range.first]) & above) | (by.one ? value : 0));
  const auto at = static_cast<Lane>(by.at());
  // After a new zero the others get a one.
  const auto last = static_cast<Lane>(by.one ? 0 : by.range.end);
  for (unsigned i = 0; i < max_entries; ++i) {
    const Lane lane = lanes<Lane>[i];
    const New left = mask(lane < at);
    const New is_fresh = mask(lane == at);
    const auto ones = static_cast<New>(mask(lane > at) & mask(lane <= last) & value);
    const auto old = static_cast<New>((New{here[i]} & left) | (New{before[i]} & New(~left)));
    const auto key = static_cast<New>(wider(old) | ones);
    to[i] = static_cast<New>((key & New(~is_fresh)) | (fresh & is_fresh));
  }
}

}  // namespace

Trie::Trie(const Node& node) noexcept
    : entries_(node.entries_), bits_(node.bits_), height_(node.height_) {
  if (node.groups_ == 0) {
    list_positions(node.masks()[0], positions_.data(),
                   [&](unsigned i) { return node.window_ + i; });
  } else {
    unsigned listed = 0;
    for (unsigned group = 0; group < node.groups_; ++group)
      listed += list_positions(node.masks()[group], &positions_[listed], [&](unsigned i) {
        return node.offsets()[group * Node::group_bytes + i];
      });
  }
  if (node.key_width_ == 1)
    widen<std::uint8_t>(node.keys_begin(), entries_, keys_.data());
  else if (node.key_width_ == 2)
    widen<std::uint16_t>(node.keys_begin(), entries_, keys_.data());
  else
    widen<std::uint32_t>(node.keys_begin(), entries_, keys_.data());
  for (unsigned i = 0; i < entries_; ++i) entry_[i] = node.entry(i).load(std::memory_order_acquire);
  if (height_ > 1) return;
  hint_byte_ = hint_byte_of(positions_[0]);
  lead_ = node.lead();
}

Trie::Trie(unsigned position, Entry zero, Entry one) noexcept : entries_(2), bits_(1) {
  positions_[0] = static_cast<std::uint16_t>(position);
  keys_[0] = 0;
  keys_[1] = 1;
  entry_[0] = zero;
  entry_[1] = one;
}

void Trie::insert(unsigned position, unsigned near, bool one, Entry entry) noexcept {
  PERDURE_ASSERT(entries_ <= max_entries);
  unsigned bit = 0;
  while (bit < bits_ && positions_[bit] < position) ++bit;
  if (bit == bits_ || positions_[bit] != position) {
    const auto low = static_cast<std::uint32_t>((std::uint64_t{1} << (bits_ - bit)) - 1);
    for (unsigned i = 0; i < entries_; ++i) keys_[i] += keys_[i] & ~low;  // shifts what is above
    std::copy_backward(&positions_[bit], &positions_[bits_], &positions_[bits_] + 1);
    positions_[bit] = static_cast<std::uint16_t>(position);
    ++bits_;
  }
  const std::uint32_t value = value_of_bit(bit);
  const std::uint32_t path = keys_[near] & above(value);
  const auto shares_path = [&](unsigned i) { return (keys_[i] & above(value)) == path; };
  unsigned first = near;
  unsigned end = near + 1;
  while (first > 0 && shares_path(first - 1)) --first;
  while (end < entries_ && shares_path(end)) ++end;
  if (!one)
    for (unsigned i = first; i < end; ++i) keys_[i] |= value;
  const unsigned at = one ? end : first;
  std::copy_backward(&keys_[at], &keys_[entries_], &keys_[entries_] + 1);
  std::copy_backward(&entry_[at], &entry_[entries_], &entry_[entries_] + 1);
  keys_[at] = one ? path | value : path;
  entry_[at] = entry;
  ++entries_;
  if (height_ != 0) height_ = std::max(height_, height_of(entry) + 1);
}

// The branch above an entry is the lower of those to its neighbours.
auto Trie::siblings_of(unsigned i) const noexcept -> Siblings {
  PERDURE_ASSERT(entries_ > 1);
  const std::uint32_t left = i > 0 ? std::bit_floor(keys_[i] ^ keys_[i - 1]) : 0;
  const std::uint32_t right = i + 1 < entries_ ? std::bit_floor(keys_[i] ^ keys_[i + 1]) : 0;
  const bool to_the_right = right != 0 && (left == 0 || right < left);
  Siblings siblings{to_the_right ? right : left, i, i};
  const std::uint32_t way = keys_[i] & above(siblings.branch);
  const auto shares_way = [&](unsigned k) { return (keys_[k] & above(siblings.branch)) == way; };
  if (to_the_right) {
    siblings.first = siblings.end = i + 1;
    while (siblings.end < entries_ && shares_way(siblings.end)) ++siblings.end;
  } else {
    while (siblings.first > 0 && shares_way(siblings.first - 1)) --siblings.first;
  }
  return siblings;
}

std::optional<unsigned> Trie::lone_sibling(unsigned i) const noexcept {
  const Siblings siblings = siblings_of(i);
  return siblings.end - siblings.first == 1 ? std::optional(siblings.first) : std::nullopt;
}

void Trie::erase(unsigned i) noexcept {
  const Siblings siblings = siblings_of(i);
  for (unsigned k = siblings.first; k < siblings.end; ++k) keys_[k] &= ~siblings.branch;
  std::copy(&keys_[i + 1], &keys_[entries_], &keys_[i]);
  std::copy(&entry_[i + 1], &entry_[entries_], &entry_[i]);
  --entries_;
  height_ = 0;  // the highest may be gone
}

Trie Trie::join(unsigned position, const Trie& zero, const Trie& one) noexcept {
  PERDURE_ASSERT(zero.entries_ + one.entries_ <= max_entries);
  Trie both;
  if (zero.hint_byte_ == one.hint_byte_) {
    both.hint_byte_ = zero.hint_byte_;
    both.lead_ = zero.lead_;
  }
  std::uint16_t* const begin = both.positions_.data();
  begin[0] = static_cast<std::uint16_t>(position);
  std::uint16_t* const end =
      std::set_union(zero.positions_.data(), zero.positions_.data() + zero.bits_,
                     one.positions_.data(), one.positions_.data() + one.bits_, begin + 1);
  both.bits_ = static_cast<unsigned>(end - begin);
  for (const Trie* const side : {&zero, &one}) {
    std::array<std::uint32_t, max_entries> value_here;
    for (unsigned bit = 0; bit < side->bits_; ++bit)
      value_here[bit] = both.value_of_bit(
          static_cast<unsigned>(std::lower_bound(begin, end, side->positions_[bit]) - begin));
    for (unsigned i = 0; i < side->entries_; ++i) {
      std::uint32_t key = side == &one ? both.value_of_bit(0) : 0;
      for (unsigned bit = 0; bit < side->bits_; ++bit)
        if ((side->keys_[i] & side->value_of_bit(bit)) != 0) key |= value_here[bit];
      both.keys_[both.entries_] = key;
      both.entry_[both.entries_++] = side->entry_[i];
    }
  }
  return both;
}

void Trie::split(Trie& zero, Trie& one) const noexcept {
  const std::uint32_t top = value_of_bit(0);
  for (unsigned i = 0; i < entries_; ++i) {
    Trie& side = (keys_[i] & top) == 0 ? zero : one;
    side.keys_[side.entries_] = keys_[i] & ~top;
    side.entry_[side.entries_++] = entry_[i];
  }
  for (Trie* const side : {&zero, &one}) {
    side->bits_ = bits_;
    side->positions_ = positions_;
    side->hint_byte_ = hint_byte_;
    side->lead_ = lead_;
  }
}

// N2. A bit without a one is no branch of this trie.
void Trie::drop_unused_bits() noexcept {
  std::uint32_t used = 0;
  for (unsigned i = 0; i < entries_; ++i) used |= keys_[i];
  const auto count = static_cast<unsigned>(std::popcount(used));
  if (count == bits_) return;
  unsigned kept = 0;
  for (unsigned bit = 0; bit < bits_; ++bit)
    if ((used & value_of_bit(bit)) != 0) positions_[kept++] = positions_[bit];
  for (unsigned i = 0; i < entries_; ++i)
    keys_[i] = static_cast<std::uint32_t>(pm::extract_bits(keys_[i], used));
  bits_ = count;
}

// N5. Most often they have them: keys that agree up to a byte have the same lead.
void Trie::give_hints(KeyOf key_of) noexcept {
  const unsigned byte = hint_byte_of(positions_[0]);
  if (byte == hint_byte_) return;
  hint_byte_ = byte;
  for (unsigned i = 0; i < entries_; ++i) pm::prefetch(address_of_record(entry_[i]));
  for (unsigned i = 0; i < entries_; ++i) entry_[i] = with_hint(entry_[i], key_of(entry_[i]), byte);
  lead_ = key_of(entry_[0]);
}

Node* Trie::make_node(StripedArena& arena, KeyOf key_of) {
  PERDURE_ASSERT(entries_ >= 2 && entries_ <= max_entries);
  drop_unused_bits();
  if (height_ == 0)
    for (unsigned i = 0; i < entries_; ++i) height_ = std::max(height_, height_of(entry_[i]) + 1);
  const unsigned first_byte = positions_[0] / 8U;
  const unsigned last_byte = positions_[bits_ - 1] / 8U;
  // Integers are one window (KeyBits::word).
  const unsigned window = last_byte < 8 ? 0 : first_byte;
  unsigned groups = 0;
  if (last_byte - window >= 8) {
    unsigned bytes = 1;
    for (unsigned bit = 1; bit < bits_; ++bit)
      bytes += positions_[bit] / 8 != positions_[bit - 1] / 8;
    groups = std::bit_ceil((bytes + Node::group_bytes - 1) / Node::group_bytes);
  }
  const unsigned width = width_for(bits_);
  const std::size_t bytes = Node::bytes_of(groups, width, entries_);
  void* const block = arena.allocate(bytes);
  Node* const node = new (block) Node;
  node->window_ = static_cast<std::uint16_t>(groups == 0 ? window : 0);
  node->entries_at_ = static_cast<std::uint16_t>(Node::entries_at(groups, width, entries_));
  node->entries_ = static_cast<std::uint8_t>(entries_);
  node->bits_ = static_cast<std::uint8_t>(bits_);
  node->groups_ = static_cast<std::uint8_t>(groups);
  node->key_width_ = static_cast<std::uint8_t>(width);
  std::uint64_t* const masks = node->masks();
  if (groups == 0) {
    std::uint64_t mask = 0;
    for (unsigned bit = 0; bit < bits_; ++bit)
      mask |= std::uint64_t{1} << (63 - (positions_[bit] - 8 * window));
    masks[0] = mask;
  } else {
    std::fill_n(masks, groups, 0);
    std::fill_n(node->offsets(), groups * Node::group_bytes, std::uint16_t{0});
    unsigned place = 0;
    for (unsigned bit = 0; bit < bits_; ++bit) {
      const unsigned byte = positions_[bit] / 8U;
      if (bit > 0 && byte != positions_[bit - 1] / 8U) ++place;
      node->offsets()[place] = static_cast<std::uint16_t>(byte);
      masks[place / Node::group_bytes] |=
          std::uint64_t{1} << (63 - (8 * (place % Node::group_bytes) + positions_[bit] % 8U));
    }
  }
  // Not `node->keys_begin()`: g++ takes a store after the node's own bytes for an overrun.
  std::byte* const keys = static_cast<std::byte*>(block) + Node::keys_at(groups);
  if (width == 1)
    narrow<std::uint8_t>(keys_.data(), entries_, keys);
  else if (width == 2)
    narrow<std::uint16_t>(keys_.data(), entries_, keys);
  else
    narrow<std::uint32_t>(keys_.data(), entries_, keys);
  if (height_ == 1 && key_of != nullptr) {
    give_hints(key_of);
    node->set_lead(lead_, hint_byte_);
  }
  for (unsigned i = 0; i < entries_; ++i) new (&node->entry(i)) std::atomic<Entry>(entry_[i]);
  node->height_ = static_cast<std::uint16_t>(height_);
  return node;
}

Entry extend(StripedArena& arena, const Node& node, unsigned position, Node::Range range, bool one,
             Entry entry) {
  const unsigned in_window = position - 8U * node.window_;  // huge where it is before the window
  if (node.height_ > 1 || node.groups_ != 0 || node.entries_ == max_entries || in_window >= 64 ||
      hint_byte_of(position) < hint_byte_of(node.first_bit()))
    return no_entry;
  const std::uint64_t mask = node.masks()[0] | std::uint64_t{1} << (63 - in_window);
  const bool is_new = mask != node.masks()[0];
  const unsigned bits = node.bits_ + (is_new ? 1U : 0U);
  const unsigned width = width_for(bits);
  const unsigned after = bits - 1 - node.bits_before(position);
  const std::uint32_t value = std::uint32_t{1} << after;
  const Extension by{is_new ? ~(value - 1) : 0, value, one, range};
  const unsigned count = node.entries_ + 1U;
  const std::size_t bytes = Node::bytes_of(0, width, count);
  Node* const made = new (arena.allocate(bytes)) Node;
  made->height_ = 1;
  made->window_ = node.window_;
  made->entries_at_ = static_cast<std::uint16_t>(Node::entries_at(0, width, count));
  made->entries_ = static_cast<std::uint8_t>(count);
  made->bits_ = static_cast<std::uint8_t>(bits);
  made->key_width_ = static_cast<std::uint8_t>(width);
  made->lead_ = node.lead_;
  made->masks()[0] = mask;
  const std::byte* const from = node.keys_begin();
  std::byte* const to = made->keys_begin();
  if (width == 1)
    extend_keys<std::uint8_t, std::uint8_t>(from, by, to);
  else if (width == 4 && node.key_width_ == 4)
    extend_keys<std::uint32_t, std::uint32_t>(from, by, to);
  else if (width == 4)
    extend_keys<std::uint16_t, std::uint32_t>(from, by, to);
  else if (node.key_width_ == 2)
    extend_keys<std::uint16_t, std::uint16_t>(from, by, to);
  else
    extend_keys<std::uint8_t, std::uint16_t>(from, by, to);
  const unsigned at = by.at();
  // Entries change under the lock only, which the caller holds.
  copy_with_gap(reinterpret_cast<const std::uint64_t*>(&node.entry(0)), count - 1, at,
                reinterpret_cast<std::uint64_t*>(&made->entry(0)));
  new (&made->entry(at)) std::atomic<Entry>(entry);
  return entry_of(made, bytes);
}

}  // namespace perdure::hot
