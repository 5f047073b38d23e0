// The changing half of Hot: insert, upsert, update, remove, and the nodes that are replaced.
#include <new>
#include <utility>

#include "index/common/bulk_check.h"
#include "index/hot/hot.h"
#include "index/hot/wide_extension.h"

namespace perdure {

template <class Keys>
struct Hot<Keys>::Locks {
  pm::HeldLock<> node;
  pm::HeldLock<> place;
};

// Unless it is committed it leaves everything as it was: locks are released, what was made is
// freed.
template <class Keys>
class Hot<Keys>::Change {
 public:
  Change(Hot& hot, const Route& route) noexcept : hot_(hot), route_(route) {}
  ~Change() {
    for (pm::VersionLock* const lock : locked_) lock->unlock_unchanged();
    free_made();
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  /// Locks the place of what is at `level` of the route: the entry above, or the root. False: it
  /// is locked or obsolete, or leads somewhere else by now.
  [[nodiscard]] bool lock_place(std::size_t level) {
    return take(hot_.lock_of(route_, level)) &&
           hot_.place_of(route_, level).load(std::memory_order_relaxed) == on_route(level);
  }
  /// Locks a node that is to be replaced.
  [[nodiscard]] bool lock_node(Node& node) { return take(node.lock); }
  [[nodiscard]] Entry make(hot::Trie& trie) {
    made_.make_room();
    const Entry entry = trie.make_entry(hot_.arena_, key_of());
    if (trie.entries() > 1) made_.push_back(hot::node_of(entry));
    return entry;
  }
  /// Puts `entry` in the place of what is at `level`, and retires the nodes of the route from there
  /// to before `end`, and the node `beside`. They were locked first, in this order.
  void commit(std::size_t level, Entry entry, std::size_t end, Node* beside = nullptr) {
    hot_.place_of(route_, level).store(entry, std::memory_order_release);
    made_.clear();
    const std::size_t count = end - level + (beside == nullptr ? 0 : 1);
    for (std::size_t i = 0; i < locked_.size(); ++i)
      if (i < count)
        locked_[i]->unlock_obsolete();  // H3
      else
        locked_[i]->unlock_unchanged();
    locked_.clear();
    for (std::size_t i = level; i < end; ++i)
      hot_.retire(route_.steps[i].node, route_.steps[i].node->bytes());
    if (beside != nullptr) hot_.retire(beside, beside->bytes());
  }
  void free_made() noexcept {
    for (Node* const node : made_) hot_.arena_.free(node, node->bytes());
    made_.clear();
  }

 private:
  [[nodiscard]] bool take(pm::VersionLock& lock) {
    locked_.make_room();
    if (!lock.try_lock()) return false;
    locked_.push_back(&lock);
    return true;
  }
  [[nodiscard]] Entry on_route(std::size_t level) const noexcept {
    return level < route_.steps.size() ? hot::entry_of(route_.steps[level].node) : route_.leaf;
  }

  Hot& hot_;
  const Route& route_;
  hot::ShortList<pm::VersionLock*, usual_depth> locked_;
  hot::ShortList<Node*, usual_depth> made_;
};

template <class Keys>
Outcome Hot<Keys>::update(Key key, Value value) {
  if constexpr (Keys::kind == KeyKind::bytes) {
    return put(key, value, Put::update);
  } else {
    const Epochs::Guard guard(epochs_);
    const Entry leaf = find(KeyBits(key));
    if (leaf == hot::no_entry || hot::is_dead(leaf) || record_of(leaf)->key() != key)
      return Outcome::not_found;
    // Without a lock: a record that is taken out meanwhile was changed before that.
    record_of(leaf)->value.store(value, std::memory_order_release);
    return Outcome::ok;
  }
}

template <class Keys>
[[gnu::always_inline]] inline std::optional<Outcome> Hot<Keys>::try_put(const KeyBits& key,
                                                                        Put kind, Route& route,
                                                                        Draft& draft) {
  const auto ok_if = [](bool done) { return done ? std::optional(Outcome::ok) : std::nullopt; };
  find(key, route);
  if (route.leaf == hot::no_entry)
    return kind == Put::update ? Outcome::not_found : ok_if(insert_first(draft));
  // The old node's successor is on its way from memory, and the record may come beside it.
  if (!route.steps.empty()) arena_.prefetch(route.steps.back().node->bytes_with_one_more());
  const std::uint64_t differs = known_difference(key, kind, route);
  if (differs == 0) prefetch(route.leaf);
  // So may the locks: most insertions need them, and no operation begins before they are had.
  Locks locks;
  if (kind == Put::insert && has_room(route) && !lock(route, locks)) return std::nullopt;
  if constexpr (Keys::kind == KeyKind::integer)
    if (locks.node && Node::is_wide() && extend_wide(route, differs, draft, locks)) [[likely]]
      return Outcome::ok;
  const unsigned position = KeyBits::first_difference(key, bits_of(route.leaf));
  if (position != hot::no_bit) {
    if (kind == Put::update) return Outcome::not_found;
    const Branch branch = branch_of(route, key, position);
    if (branch.level + 1 == route.steps.size() && has_room(route)) [[likely]]
      if (const Attempt attempt = insert_into(route, branch, draft, locks);
          attempt != Attempt::unfit)
        return ok_if(attempt == Attempt::done);
    locks.node.unlock_unchanged();
    locks.place.unlock_unchanged();
    if (branch.at_record && route.steps[branch.level].node->height() > 1)
      return ok_if(push_down(route, branch, draft));
    return ok_if(add(route, branch, draft));
  }
  locks.node.unlock_unchanged();
  locks.place.unlock_unchanged();
  if (hot::is_dead(route.leaf)) {
    if (kind == Put::update) return Outcome::not_found;
    return ok_if(replace_record(route, draft));
  }
  if (kind == Put::insert) return Outcome::exists;
  if constexpr (Keys::kind == KeyKind::integer) {
    record_of(route.leaf)->value.store(draft.value(), std::memory_order_release);
    return Outcome::ok;
  } else {
    return ok_if(replace_record(route, draft));
  }
}

template <class Keys>
Outcome Hot<Keys>::put(Key key, Value value, Put kind) {
  if (!within_limits(key, value)) return Outcome::invalid;
  const Epochs::Guard guard(epochs_);
  const KeyBits bits(key);
  Draft draft(arena_, key, value);
  try {
    Route route;
    for (pm::Backoff backoff;; backoff.wait())
      if (const std::optional<Outcome> outcome = try_put(bits, kind, route, draft)) return *outcome;
  } catch (const std::bad_alloc&) {
    return Outcome::out_of_space;
  }
}

template <class Keys>
bool Hot<Keys>::insert_first(Draft& draft) {
  const Entry entry = entry_of(draft.record());
  Route route;
  Change change(*this, route);
  if (!change.lock_place(0)) return false;
  draft.taken();
  change.commit(0, entry, 0);
  return true;
}

template <class Keys>
bool Hot<Keys>::replace_record(const Route& route, Draft& draft) {
  const Entry entry = hot::with_hint_of(entry_of(draft.record()), route.leaf);
  Change change(*this, route);
  if (!change.lock_place(route.steps.size())) return false;
  draft.taken();
  change.commit(route.steps.size(), entry, route.steps.size());
  retire_record(route.leaf);
  return true;
}

// Leaf-node pushdown: a node of the two records takes the record's place.
template <class Keys>
bool Hot<Keys>::push_down(const Route& route, const Branch& branch, Draft& draft) {
  const Entry entry = entry_of(draft.record());
  hot::Trie two(branch.position, branch.one ? route.leaf : entry, branch.one ? entry : route.leaf);
  Change change(*this, route);
  if (!change.lock_place(route.steps.size())) return false;
  const Entry made = change.make(two);
  draft.taken();
  change.commit(route.steps.size(), made, route.steps.size());
  return true;
}

// The last node is one of records, with room for one more.
template <class Keys>
bool Hot<Keys>::has_room(const Route& route) noexcept {
  return !route.steps.empty() && route.steps.back().node->height() == 1 &&
         route.steps.back().node->entries() < hot::max_entries;
}

// The bits at which the key of an insertion into the last node differs from the record's, as far as
// that knows. None: the record has to be asked.
template <class Keys>
[[gnu::always_inline]] inline std::uint64_t Hot<Keys>::known_difference(
    const KeyBits& key, Put kind, const Route& route) noexcept {
  if constexpr (Keys::kind == KeyKind::integer)
    if (kind == Put::insert && has_room(route))
      return route.steps.back().node->known_difference(key.word(0), route.leaf);
  return 0;
}

// The last node of the route, and its place. False: something changed meanwhile.
template <class Keys>
[[gnu::always_inline]] inline bool Hot<Keys>::lock(const Route& route, Locks& locks) noexcept {
  const std::size_t level = route.steps.size() - 1;
  Node* const node = route.steps[level].node;
  return locks.node.take(node->lock) && locks.place.take(lock_of(route, level)) &&
         hot::node_of(place_of(route, level).load(std::memory_order_relaxed)) == node;
}

// Normal insert into the last node, of records, without what the others have to note.
template <class Keys>
auto Hot<Keys>::insert_into(const Route& route, const Branch& branch, Draft& draft, Locks& locks)
    -> Attempt {
  Node& node = *route.steps[branch.level].node;
  Entry entry = entry_of(draft.record());
  if constexpr (Keys::kind == KeyKind::integer)
    entry = hot::with_hint(entry, draft.key(), hot::hint_byte_of(node.first_bit()));
  if (!locks.node && !lock(route, locks)) return Attempt::beaten;
  const Entry made = hot::extend(arena_, node, branch.position, branch.range, branch.one, entry);
  if (made == hot::no_entry) return Attempt::unfit;
  replace_last(route, made, draft, locks);
  return Attempt::done;
}

// Normal insert of an integer, most often; `differs` is the known difference. False: nothing is
// done.
template <class Keys>
[[gnu::always_inline]] inline bool Hot<Keys>::extend_wide(const Route& route, std::uint64_t differs,
                                                          Draft& draft, Locks& locks)
  requires(Keys::kind == KeyKind::integer)
{
  const Step& last = route.steps.back();
  const Entry entry = entry_of(draft.record());
  hot::WideExtension extension(arena_, *last.node);
  if (differs == 0) [[unlikely]]
    differs = draft.key() ^ record_of(route.leaf)->key();
  if (differs == 0) return false;
  const Entry made = extension.finish(draft.key(), differs, last.index, entry);
  if (made == hot::no_entry) return false;
  replace_last(route, made, draft, locks);
  return true;
}

// Puts `made`, which has the draft's record, in the place of the last node. Both are locked.
template <class Keys>
[[gnu::always_inline]] inline void Hot<Keys>::replace_last(const Route& route, Entry made,
                                                           Draft& draft, Locks& locks) {
  const std::size_t level = route.steps.size() - 1;
  std::atomic<Entry>& place = place_of(route, level);
  const std::size_t bytes = hot::bytes_of_node(place.load(std::memory_order_relaxed));
  place.store(made, std::memory_order_release);
  locks.node.unlock_obsolete();  // H3
  draft.taken();
  retire(route.steps[level].node, bytes);
}

// Normal insert; or, where the node overflows, what its two halves become: two entries of the node
// above, which may overflow in turn (parent pull up), or of a node of their own between the two
// (intermediate node creation) where that is higher than need be, or is none.
template <class Keys>
bool Hot<Keys>::add(const Route& route, const Branch& branch, Draft& draft) {
  Entry entry = entry_of(draft.record());
  Change change(*this, route);
  if (route.steps.empty()) {
    hot::Trie two(branch.position, branch.one ? route.leaf : entry,
                  branch.one ? entry : route.leaf);
    if (!change.lock_place(0)) return false;
    const Entry made = change.make(two);
    draft.taken();
    change.commit(0, made, 0);
    return true;
  }
  std::size_t level = branch.level;
  if (!change.lock_node(*route.steps[level].node)) return false;
  hot::Trie trie(*route.steps[level].node);
  if constexpr (Keys::kind == KeyKind::integer) entry = trie.hinted(entry, draft.key());
  trie.insert(branch.position, route.steps[level].index, branch.one, entry);
  while (trie.entries() > hot::max_entries) {
    if (!change.lock_place(level)) return false;
    hot::Trie zero;
    hot::Trie one;
    trie.split(zero, one);
    const unsigned position = trie.position(0);
    const Entry left = change.make(zero);
    const Entry right = change.make(one);
    const unsigned height = route.steps[level].node->height();
    if (level == 0 || route.steps[level - 1].node->height() > height + 1) {
      hot::Trie two(position, left, right);
      const Entry made = change.make(two);
      draft.taken();
      change.commit(level, made, branch.level + 1);
      return true;
    }
    --level;
    trie = hot::Trie(*route.steps[level].node);
    trie.replace(route.steps[level].index, left);
    trie.insert(position, route.steps[level].index, true, right);
  }
  if (!change.lock_place(level)) return false;
  const Entry made = change.make(trie);
  draft.taken();
  change.commit(level, made, branch.level + 1);
  return true;
}

template <class Keys>
Outcome Hot<Keys>::remove(Key key) {
  const Epochs::Guard guard(epochs_);
  const KeyBits bits(key);
  Route route;
  for (pm::Backoff backoff;; backoff.wait()) {
    find(bits, route);
    if (route.leaf == hot::no_entry || hot::is_dead(route.leaf) ||
        record_of(route.leaf)->key() != key)
      return Outcome::not_found;
    if (take_out(route)) return Outcome::ok;
  }
}

// Where it leaves one entry, that takes the node's place; where it leaves few, they may go into one
// node with what is beside them.
template <class Keys>
bool Hot<Keys>::take_out(const Route& route) {
  const std::size_t end = route.steps.size();
  Change change(*this, route);
  if (!change.lock_place(end)) return false;
  if (end == 0) {
    change.commit(0, hot::no_entry, 0);
    retire_record(route.leaf);
    return true;
  }
  if (!change.lock_place(end - 1)) return false;
  hot::Trie trie(*route.steps[end - 1].node);
  trie.erase(route.steps[end - 1].index);
  try {
    if (!merge(change, route, trie)) change.commit(end - 1, change.make(trie), end);
  } catch (const std::bad_alloc&) {
    // A removal cannot fail. The record stays for its key, until that comes again.
    change.free_made();
    change.commit(end, route.leaf | hot::dead_bit, end);
    return true;
  }
  retire_record(route.leaf);
  return true;
}

// The reverse of parent pull up: the branch above two small nodes, or above one and a record, goes
// down to them into one node. Not so small that the next insertion splits it again.
template <class Keys>
bool Hot<Keys>::merge(Change& change, const Route& route, const hot::Trie& rest) {
  constexpr unsigned few = hot::max_entries * 3 / 8;
  constexpr unsigned many = hot::max_entries * 3 / 4;
  const std::size_t end = route.steps.size();
  if (end < 2 || rest.entries() < 2 || rest.entries() > few) return false;
  const unsigned height = route.steps[end - 1].node->height();
  const unsigned index = route.steps[end - 2].index;
  hot::Trie above(*route.steps[end - 2].node);
  const std::optional<unsigned> sibling = above.lone_sibling(index);
  if (!sibling) return false;
  const Entry entry = above.entry(*sibling);
  Node* const beside = hot::is_record(entry) ? nullptr : hot::node_of(entry);
  if (beside == nullptr ? height > 1
                        : beside->height() != height || beside->entries() + rest.entries() > many)
    return false;
  if (beside != nullptr && !change.lock_node(*beside)) return false;
  if (!change.lock_place(end - 2)) return false;
  const hot::Trie other = beside == nullptr ? hot::Trie(entry) : hot::Trie(*beside);
  const bool before = *sibling < index;
  const unsigned position = above.branch_between(before ? *sibling : index);
  hot::Trie joined = hot::Trie::join(position, before ? other : rest, before ? rest : other);
  above.replace(index, change.make(joined));
  above.erase(*sibling);
  change.commit(end - 2, change.make(above), end, beside);
  return true;
}

template <class Keys>
void Hot<Keys>::retire(const void* object, std::size_t bytes) {
  epochs_.retire(reinterpret_cast<std::uint64_t>(object), bytes, StripedArena::destroy, &arena_);
}

template Outcome Hot<IntegerKeys>::put(Key, Value, Put);
template Outcome Hot<ByteKeys>::put(Key, Value, Put);
template Outcome Hot<IntegerKeys>::update(Key, Value);
template Outcome Hot<ByteKeys>::update(Key, Value);
template Outcome Hot<IntegerKeys>::remove(Key);
template Outcome Hot<ByteKeys>::remove(Key);

}  // namespace perdure
