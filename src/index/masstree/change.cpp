// The changing half of Masstree: insert, upsert, update, remove; splits, layers, empty nodes.
#include <array>
#include <new>

#include "core/assert.h"
#include "index/common/bulk_check.h"
#include "index/masstree/find.h"
#include "index/masstree/masstree.h"

namespace perdure {

template <class Keys>
class Masstree<Keys>::Held {
 public:
  Held() = default;
  ~Held() {
    for (unsigned i = 0; i < count_; ++i) locks_[i]->unlock_unchanged();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void add(pm::VersionLock& lock) noexcept {
    PERDURE_ASSERT(count_ < locks_.size());
    locks_[count_++] = &lock;
  }
  /// A node that nobody else sees yet.
  void lock_new(pm::VersionLock& lock) noexcept {
    [[maybe_unused]] const bool taken = lock.try_lock();
    PERDURE_ASSERT(taken);
    add(lock);
  }
  void release_changed() noexcept {
    while (count_ > 0) locks_[--count_]->unlock();
  }
  void release_obsolete(pm::VersionLock& lock) noexcept {
    for (unsigned i = 0; i < count_; ++i)
      if (locks_[i] == &lock) {
        locks_[i] = locks_[--count_];
        return lock.unlock_obsolete();
      }
  }

 private:
  std::array<pm::VersionLock*, 64> locks_;
  unsigned count_ = 0;
};

// Locks the full nodes above a border node, and the first that is not full, from below; and has the
// memory for all new ones. Nothing is changed before, so running out of memory changes nothing.
template <class Keys>
class Masstree<Keys>::Growth {
 public:
  Growth(StripedArena& arena, Held& held) noexcept : arena_(arena), held_(held) {}
  ~Growth() {
    if (border_ != nullptr) arena_.free(border_, sizeof(Border));
    while (spare_count_ > 0) arena_.free(spare_[--spare_count_], sizeof(Interior));
  }
  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;

  void prepare(Border& border) {
    for (const Node* node = &border; (top_ = lock_parent(*node)) != nullptr; node = top_) {
      held_.add(top_->lock);
      if (!top_->is_full()) break;
      ++full_;
    }
    border_ = arena_.allocate(sizeof(Border));
    while (spare_count_ < full_ + (top_ == nullptr ? 1 : 0)) {
      PERDURE_ASSERT(spare_count_ < spare_.size());
      spare_[spare_count_] = arena_.allocate(sizeof(Interior));
      ++spare_count_;
    }
  }
  [[nodiscard]] Border& take_border(std::uint64_t lowest) noexcept {
    auto* const border = new (border_) Border(lowest);
    border_ = nullptr;
    held_.lock_new(border->lock);
    return *border;
  }
  [[nodiscard]] Interior& take_interior(std::uint64_t level) noexcept {
    auto* const interior = new (spare_[--spare_count_]) Interior(level);
    held_.lock_new(interior->lock);
    return *interior;
  }

 private:
  StripedArena& arena_;
  Held& held_;
  Interior* top_ = nullptr;
  unsigned full_ = 0;
  void* border_ = nullptr;
  std::array<void*, 24> spare_{};
  unsigned spare_count_ = 0;
};

template <class Keys>
auto Masstree<Keys>::lock_parent(const Node& node) noexcept -> Interior* {
  for (;;) {
    Interior* const parent = node.parent.load(std::memory_order_acquire);
    if (parent == nullptr || !parent->lock.lock()) return nullptr;  // interior nodes stay (M3)
    if (node.parent.load(std::memory_order_acquire) == parent) return parent;
    parent->lock.unlock_unchanged();
  }
}

template <class Keys>
auto Masstree<Keys>::lock_previous(const Border& border) noexcept -> Border* {
  for (;;) {
    Border* const previous = border.prev.load(std::memory_order_acquire);
    if (previous == nullptr) return nullptr;
    if (!previous->lock.lock()) continue;
    if (previous->next.load(std::memory_order_acquire) == &border) return previous;
    previous->lock.unlock_unchanged();
  }
}

template <class Keys>
Outcome Masstree<Keys>::put(Key key, Value value, Put kind) {
  if (!within_limits(key, value)) return Outcome::invalid;
  const Epochs::Guard guard(epochs_);
  try {
    if constexpr (!is_bytes)
      return put_number(key, value, kind);
    else
      for (pm::Backoff backoff;; backoff.wait())
        if (const std::optional<Outcome> outcome = try_put(key, value, kind)) return *outcome;
  } catch (const std::bad_alloc&) {
    return Outcome::out_of_space;
  }
}

// Under the border node's lock, taken at the version of the search. Entries come and go without a
// new version (B1), but not without another permutation; words change without either.
template <class Keys>
auto Masstree<Keys>::spot_again(const Place& place, const Step& step) noexcept -> Spot {
  const Border& border = *place.at.border;
  const Permutation order = border.order();
  if (order.word() != place.order.word()) return spot_of(border, order, step);
  Spot spot = place.spot;
  if (spot.taken) spot.entry = border.entry(spot.place);
  return spot;
}

// Finds the place before it takes the lock, at the version of the search, and then releases it at
// once: so that it has few instructions, and none but the lock's that the next operation waits for.
template <class Keys>
[[gnu::always_inline]] inline Outcome Masstree<Keys>::put_number(std::uint64_t key,
                                                                 std::uint64_t value, Put kind)
  requires(Keys::kind == KeyKind::integer)
{
  for (pm::Backoff backoff;; backoff.wait()) {
    Number number = find_number(key);
    if (number.taken && kind == Put::insert) return Outcome::exists;
    if (!number.taken && kind == Put::update) return Outcome::not_found;
    Border& border = *number.at.border;
    if (!border.lock.try_upgrade(number.at.version)) continue;
    // Entries come and go without a new version (B1), but not without another permutation.
    if (border.order().word() != number.order.word()) [[unlikely]]
      number = number_in(border, key);
    if (number.taken) {
      if (kind == Put::insert) {
        border.lock.unlock_unchanged();
        return Outcome::exists;
      }
      border.words[number.place].store(value, std::memory_order_release);
      border.lock.unlock();  // a walk takes a node's values as of one moment
      return Outcome::ok;
    }
    if (kind == Put::update) {
      border.lock.unlock_unchanged();
      return Outcome::not_found;
    }
    if (number.order.count() == masstree::width)
      split_for(border, number.rank, key, value);
    else
      border.lock.unlock(border.insert(number.rank, {key, 8, value}));  // B2
    return Outcome::ok;
  }
}

// The border node is locked, and released again.
template <class Keys>
void Masstree<Keys>::split_for(Border& border, unsigned rank, Key key, Value value) {
  Held held;
  held.add(border.lock);
  add(border, rank, masstree::step_at(key, 0), key, value, held);
}

template <class Keys>
std::optional<Outcome> Masstree<Keys>::try_put(Key key, Value value, Put kind) {
  const std::optional<Place> place = find(key);
  if (!place) return std::nullopt;
  if (place->found && kind == Put::insert) return Outcome::exists;
  if (!place->found && kind == Put::update) return Outcome::not_found;
  Border& border = *place->at.border;
  Held held;
  if (!border.lock.try_upgrade(place->at.version)) return std::nullopt;
  held.add(border.lock);
  const Step step = masstree::step_at(key, place->depth);
  const Spot spot = spot_again(*place, step);
  if (spot.taken) return put_at(border, spot, key, value, kind, place->depth, held);
  if (kind == Put::update) return Outcome::not_found;
  add(border, spot.rank, step, key, value, held);
  return Outcome::ok;
}

// There is an entry with the key's slice and length.
template <class Keys>
std::optional<Outcome> Masstree<Keys>::put_at(Border& border, const Spot& spot, Key key,
                                              Value value, Put kind, std::size_t depth,
                                              Held& held) {
  const Entry& entry = spot.entry;
  if (is_link(entry)) return std::nullopt;
  if (is_of(entry, key)) {
    if (kind == Put::insert) return Outcome::exists;
    change_value(border.words[spot.place], key, value, held);
    return Outcome::ok;
  }
  if (kind == Put::update) return Outcome::not_found;
  if constexpr (is_bytes) {
    TextRecord* const added = TextRecord::make(arena_, key, value);
    const std::uint64_t link = make_layer(text_of(entry.word), added, depth + 1);
    border.words[spot.place].store(link, std::memory_order_release);
  }
  return Outcome::ok;
}

template <class Keys>
void Masstree<Keys>::change_value(std::atomic<std::uint64_t>& word, Key key, Value value,
                                  Held& held) {
  const std::uint64_t made = make_word(key, value);
  const std::uint64_t old = word.load(std::memory_order_relaxed);
  word.store(made, std::memory_order_release);
  held.release_changed();  // a walk takes a node's values as of one moment
  if constexpr (is_bytes) retire(text_of(old), text_of(old)->bytes());
}

template <class Keys>
std::uint64_t Masstree<Keys>::make_word(Key key, Value value) {
  if constexpr (is_bytes)
    return reinterpret_cast<std::uint64_t>(TextRecord::make(arena_, key, value));
  else
    return value;
}

// The layers from `depth` on that two records need which share all slices before: one per shared
// slice, built from the deepest. Takes `added` over, also when it fails.
template <class Keys>
std::uint64_t Masstree<Keys>::make_layer(TextRecord* present, TextRecord* added,
                                         std::size_t depth) {
  const auto step = [](const TextRecord* record, std::size_t at) {
    return masstree::step_at(record->key(), at);
  };
  const auto same_at = [&](std::size_t at) {
    const Step a = step(present, at);
    const Step b = step(added, at);
    return a.slice == b.slice && a.length == b.length;
  };
  const auto word_of = [](const TextRecord* record) {
    return reinterpret_cast<std::uint64_t>(record);
  };
  std::size_t deepest = depth;
  while (same_at(deepest)) ++deepest;
  Border* top = nullptr;
  try {
    top = new_node<Border>(0U);
    const Step a = step(present, deepest);
    const Step b = step(added, deepest);
    top->insert(0, {a.slice, a.length, word_of(present)});
    const bool first = masstree::before(b.slice, b.length, a.slice, a.length);
    top->insert(first ? 0 : 1, {b.slice, b.length, word_of(added)});
    while (deepest-- > depth) {
      auto* const above = new_node<Border>(0U);
      above->insert(0, {step(added, deepest).slice, masstree::longer, link_to(top)});
      top = above;
    }
  } catch (const std::bad_alloc&) {
    while (top != nullptr) {
      const Entry entry = top->entry(top->order().place(0));
      arena_.free(top, sizeof *top);
      top = is_link(entry) ? static_cast<Border*>(root_of_link(entry.word)) : nullptr;
    }
    TextRecord::free(arena_, added);
    throw;
  }
  return link_to(top);
}

template <class Keys>
void Masstree<Keys>::add(Border& border, unsigned rank, const Step& step, Key key, Value value,
                         Held& held) {
  if (border.order().count() < masstree::width) {
    const bool reused = border.insert(rank, {step.slice, step.length, make_word(key, value)});
    if (reused) held.release_changed();  // B2
    return;
  }
  // The split writes to it: the lock of the next operation would wait for the line.
  if (const Border* const next = border.next.load(std::memory_order_relaxed); next != nullptr)
    pm::prefetch_for_write(&next->prev);
  Growth growth(arena_, held);
  growth.prepare(border);
  split(border, rank, {step.slice, step.length, make_word(key, value)}, growth);
  held.release_changed();
}

namespace {

/// Where sixteen entries are parted: at the change of slice nearest to the middle (B3), or before
/// the last where keys come in ascending order.
template <class Entries>
unsigned split_point(const Entries& all, bool ascending) {
  constexpr unsigned n = masstree::width + 1;
  const auto parts = [&](unsigned at) { return all[at - 1].slice != all[at].slice; };
  if (ascending && parts(n - 1)) return n - 1;
  unsigned distance = 0;
  while (!parts(n / 2 + distance) && !parts(n / 2 - distance)) ++distance;
  return parts(n / 2 + distance) ? n / 2 + distance : n / 2 - distance;
}

}  // namespace

template <class Keys>
void Masstree<Keys>::split(Border& border, unsigned rank, const Entry& added, Growth& growth) {
  constexpr unsigned n = masstree::width;
  std::array<Entry, n + 1> all;
  const Permutation order = border.order();
  for (unsigned i = 0; i < n; ++i) all[i < rank ? i : i + 1] = border.entry(order.place(i));
  all[rank] = added;
  Border* const next = border.next.load(std::memory_order_relaxed);
  const unsigned middle = split_point(all, rank == n && next == nullptr);

  Border& right = growth.take_border(all[middle].slice);
  right.fill(std::span(all).subspan(middle));
  const bool goes_left = rank < middle;
  border.keep_first(middle - (goes_left ? 1 : 0));
  if (goes_left) border.insert(rank, added);

  right.next.store(next, std::memory_order_relaxed);
  right.prev.store(&border, std::memory_order_relaxed);
  if (next != nullptr) next->prev.store(&right, std::memory_order_release);  // B4
  border.next.store(&right, std::memory_order_release);
  link_above(border, right, right.lowest, growth);
}

// Puts the right half of a node that was split beside it, into the parent, and on upwards. All
// these nodes are locked.
template <class Keys>
void Masstree<Keys>::link_above(Node& left, Node& right, std::uint64_t separator, Growth& growth) {
  Interior* const parent = left.parent.load(std::memory_order_relaxed);
  if (parent == nullptr) {
    Interior& root = growth.take_interior(left.level + 1);
    root.set_child(0, &left);
    root.insert(0, separator, &right);
    Node* expected = &left;
    root_.compare_exchange_strong(expected, &root, std::memory_order_acq_rel);
    return;
  }
  const unsigned at = parent->place_of(&left);
  if (!parent->is_full()) return parent->insert(at, separator, &right);
  Interior& sibling = growth.take_interior(parent->level);
  const std::uint64_t between = parent->split(sibling);
  const unsigned kept = parent->key_count() + 1;
  if (at < kept)
    parent->insert(at, separator, &right);
  else
    sibling.insert(at - kept, separator, &right);
  link_above(*parent, sibling, between, growth);
}

template <class Keys>
Outcome Masstree<Keys>::remove(Key key) {
  if (!within_limits(key, Value{})) return Outcome::not_found;
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait())
    if (const std::optional<Outcome> outcome = try_remove(key)) return *outcome;
}

template <class Keys>
std::optional<Outcome> Masstree<Keys>::try_remove(Key key) {
  const std::optional<Place> place = find(key);
  if (!place) return std::nullopt;
  if (!place->found) return Outcome::not_found;
  Border& border = *place->at.border;
  bool emptied = false;
  {
    Held held;
    if (!border.lock.try_upgrade(place->at.version)) return std::nullopt;
    held.add(border.lock);
    const Spot spot = spot_again(*place, masstree::step_at(key, place->depth));
    if (!spot.taken || is_link(spot.entry) || !is_of(spot.entry, key)) return std::nullopt;
    border.erase(spot.rank);
    if constexpr (is_bytes) retire(text_of(spot.entry.word), text_of(spot.entry.word)->bytes());
    emptied = border.order().count() == 0;
    if (emptied) take_out(border, held);
  }
  for (std::size_t depth = place->depth; emptied && depth > 0; --depth)
    for (pm::Backoff backoff; !drop_layer(key, depth - 1, emptied);) backoff.wait();
  return Outcome::ok;
}

// Unlinks an empty, locked border node, unless it is a leftmost one (M3).
template <class Keys>
void Masstree<Keys>::take_out(Border& border, Held& held) {
  Border* const previous = lock_previous(border);
  if (previous == nullptr) return;
  held.add(previous->lock);
  Interior* const parent = lock_parent(border);
  held.add(parent->lock);
  const unsigned at = parent->place_of(&border);
  if (at == 0) return;
  parent->erase(at);
  Border* const next = border.next.load(std::memory_order_relaxed);
  previous->next.store(next, std::memory_order_release);
  if (next != nullptr) next->prev.store(previous, std::memory_order_release);
  held.release_obsolete(border.lock);
  held.release_changed();
  retire(&border, sizeof border);
}

// Takes the layer out that the entry of `key` at `depth` leads to, if it is empty and one node.
// False: something changed meanwhile, try again. `emptied`: the node above is empty now, too.
template <class Keys>
bool Masstree<Keys>::drop_layer(Key key, std::size_t depth, bool& emptied) {
  emptied = false;
  const std::optional<Place> place = find(key, depth);
  if (!place) return false;
  if (place->depth != depth || !place->found) return true;
  Border& above = *place->at.border;
  Held held;
  if (!above.lock.try_upgrade(place->at.version)) return false;
  held.add(above.lock);
  const Spot spot = spot_again(*place, masstree::step_at(key, depth));
  if (!spot.taken || !is_link(spot.entry)) return true;
  Node* const root = climb(root_of_link(spot.entry.word));
  if (root->level > 0 || !root->lock.lock()) return true;
  auto& border = static_cast<Border&>(*root);
  held.add(border.lock);
  if (border.order().count() != 0 || border.parent.load() != nullptr) return true;
  above.erase(spot.rank);
  held.release_obsolete(border.lock);
  retire(&border, sizeof border);
  emptied = above.order().count() == 0;
  if (emptied) take_out(above, held);
  return true;
}

template <class Keys>
void Masstree<Keys>::retire(const void* object, std::size_t bytes) {
  epochs_.retire(reinterpret_cast<std::uint64_t>(object), bytes, StripedArena::destroy, &arena_);
}

template Outcome Masstree<IntegerKeys>::put(Key, Value, Put);
template Outcome Masstree<ByteKeys>::put(Key, Value, Put);
template Outcome Masstree<IntegerKeys>::remove(Key);
template Outcome Masstree<ByteKeys>::remove(Key);

}  // namespace perdure
