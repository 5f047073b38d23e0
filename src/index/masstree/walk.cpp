// Walks of Masstree in key order: scan, size, and the check of the invariants.
#include "index/masstree/find.h"
#include "index/masstree/masstree.h"

namespace perdure {

// One layer, from `from` on where `bounded`. False: something changed, go on after the last
// record.
template <class Keys>
template <class Visit>
bool Masstree<Keys>::walk(Node* root, const From& from, std::size_t depth, bool bounded,
                          bool& ended, Visit& visit) {
  const Step first = bounded ? masstree::step_at(from.key, depth) : Step{0, 0};
  Position at = find_border(root, first.slice);
  if (at.border == nullptr) return false;
  for (std::uint64_t slice = first.slice;; bounded = false, slice = at.border->lowest) {
    std::array<Entry, masstree::width> entries;
    unsigned count = 0;
    Border* next = nullptr;
    for (;;) {
      const Permutation order = at.border->order();
      count = order.count();
      for (unsigned i = 0; i < count; ++i) entries[i] = at.border->entry(order.place(i));
      next = at.border->next.load(std::memory_order_acquire);
      if (at.holds()) break;
      at.version = at.border->lock.read_begin();
      if (!advance(at, slice)) return false;
    }
    for (unsigned i = 0; i < count; ++i) {
      const Entry& entry = entries[i];
      if (bounded && masstree::before(entry.slice, entry.length, first.slice, first.length))
        continue;
      const bool edge = bounded && entry.slice == first.slice && entry.length == first.length;
      if (is_link(entry)) {
        Node* const below = climb(root_of_link(entry.word));
        if (!walk(below, from, depth + 1, edge, ended, visit)) return false;
        if (ended) return true;
        continue;
      }
      if (edge && (key_of(entry) < from.key || (from.after && key_of(entry) == from.key))) continue;
      ended = !visit(entry);
      if (ended) return true;
    }
    if (next == nullptr) return true;
    at = {next, next->lock.read_begin()};
    if (pm::VersionLock::is_obsolete(at.version)) return false;
  }
}

template <class Keys>
template <class Visit>
void Masstree<Keys>::walk_from(Key from, Visit&& visit) const {
  const Epochs::Guard guard(epochs_);
  From start{from, false};
  const auto note = [&](const Entry& entry) {
    start = {key_of(entry), true};  // pinned: a record stays readable when it is taken out
    return visit(entry);
  };
  for (pm::Backoff backoff;; backoff.wait()) {
    bool ended = false;
    const From now = start;
    if (walk(root_.load(std::memory_order_acquire), now, 0, true, ended, note)) return;
  }
}

template <class Keys>
std::size_t Masstree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  walk_from(from, [&](const Entry& entry) {
    if constexpr (is_bytes)
      out.append(text_of(entry.word)->key(), text_of(entry.word)->value());
    else
      out.append(entry.slice, entry.word);
    return out.size() < count;
  });
  return out.size();
}

template <class Keys>
std::uint64_t Masstree<Keys>::size() const {
  std::uint64_t records = 0;
  walk_from(Key{}, [&](const Entry&) {
    ++records;
    return true;
  });
  return records;
}

namespace {

Error broken(const char* invariant) {
  return {ErrorCode::corrupt, std::string("breaks ") + invariant, "masstree",
          "report this as a bug"};
}

}  // namespace

template <class Keys>
Result<void> Masstree<Keys>::check_invariants() const {
  std::string above;
  return check_layer(*root_.load(), above);
}

template <class Keys>
Result<void> Masstree<Keys>::check_layer(Node& root, std::string& above) const {
  if (root.parent.load() != nullptr) return broken("M4");
  Border* last = nullptr;
  if (auto checked = check_node(root, {}, last, above); !checked) return checked;
  return last->next.load() == nullptr ? Result<void>() : broken("B3");
}

template <class Keys>
Result<void> Masstree<Keys>::check_node(Node& node, Range range, Border*& last,
                                        std::string& above) const {
  const std::uint64_t word = node.lock.peek();
  if (pm::VersionLock::is_locked(word) || pm::VersionLock::is_obsolete(word)) return broken("M2");
  if (node.level > 0) {
    auto& interior = static_cast<Interior&>(node);
    const unsigned n = interior.key_count();
    for (unsigned i = n; i < masstree::width; ++i)
      if (interior.key(i) != Interior::unused_key) return broken("B5");
    for (unsigned i = 0; i <= n; ++i) {
      Node& child = *interior.child(i);
      if (child.parent.load() != &interior || child.level + 1 != interior.level)
        return broken("B4");
      const Range below{i == 0 ? range.low : interior.key(i - 1),
                        i == n ? range.high : std::optional(interior.key(i))};
      if (below.high && below.low >= *below.high) return broken("B5");
      if (auto checked = check_node(child, below, last, above); !checked) return checked;
    }
    return {};
  }
  auto& border = static_cast<Border&>(node);
  if (border.lowest != range.low || border.prev.load() != last ||
      (last != nullptr && last->next.load() != &border))
    return broken("B3");
  last = &border;
  const Permutation order = border.order();
  for (unsigned i = 0; i < order.count(); ++i) {
    const Entry entry = border.entry(order.place(i));
    if (entry.slice < range.low || (range.high && entry.slice >= *range.high)) return broken("B3");
    if (i > 0) {
      const Entry left = border.entry(order.place(i - 1));
      if (!masstree::before(left.slice, left.length, entry.slice, entry.length))
        return broken("B1");
    }
    if (auto checked = check_entry(entry, above); !checked) return checked;
  }
  return {};
}

template <class Keys>
Result<void> Masstree<Keys>::check_entry(const Entry& entry, std::string& above) const {
  if constexpr (is_bytes) {
    const std::size_t depth = above.size() / 8;
    if (is_link(entry)) {
      const std::uint64_t bytes = __builtin_bswap64(entry.slice);
      above.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
      auto checked = check_layer(*climb(root_of_link(entry.word)), above);
      above.resize(8 * depth);
      return checked;
    }
    const std::string_view key = text_of(entry.word)->key();
    if (!key.starts_with(above)) return broken("M1");
    const Step step = masstree::step_at(key, depth);
    if (step.slice != entry.slice || step.length != entry.length) return broken("M1");
  } else if (entry.length != 8) {
    return broken("M1");
  }
  return {};
}

template std::size_t Masstree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t Masstree<ByteKeys>::scan(Key, std::size_t, Scan&);
template std::uint64_t Masstree<IntegerKeys>::size() const;
template std::uint64_t Masstree<ByteKeys>::size() const;
template Result<void> Masstree<IntegerKeys>::check_invariants() const;
template Result<void> Masstree<ByteKeys>::check_invariants() const;

}  // namespace perdure
