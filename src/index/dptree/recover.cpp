// DPTree's recovery: the current version of the base tree is read, what an unfinished merge left is
// disowned, and the logs are replayed into buffer trees. Media are believed in nothing.
#include <bitset>
#include <utility>
#include <vector>

#include "index/dptree/dptree.h"
#include "index/leaf/separator.h"

namespace perdure {

using dptree::Change;
using dptree::LeafSet;
using dptree::LogRecord;
using dptree::LogSegment;
using dptree::State;

namespace {

/// Which of two sets is current (B1). Sets that an unfinished merge wrote must not become current
/// when its number is used again.
unsigned disown_unfinished(std::array<LeafSet, 2>& sets, std::uint64_t version) {
  std::array<std::uint64_t, 2> stamp;
  bool changed = false;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    stamp[i] = sets[i].stamp.load(std::memory_order_relaxed);
    if (stamp[i] <= version) continue;
    stamp[i] = 0;
    sets[i].stamp.store(0, std::memory_order_relaxed);
    pm::flush(&sets[i], sizeof sets[i]);
    changed = true;
  }
  if (changed) pm::fence();
  return stamp[0] > stamp[1] ? 0 : 1;
}

}  // namespace

/// Returns where the next leaf is.
template <class Keys>
Result<std::uint64_t> DpTree<Keys>::recover_leaf(std::uint64_t offset, BaseMap& base,
                                                 std::optional<RecordWords>& last) {
  const auto corrupt = [&](const char* what) {
    return detail::corrupt_record(what, offset, pool_);
  };
  const unsigned entries = leaf_entries_;
  const std::size_t bytes = LeafView::bytes(entries);
  if (!pool_.contains(offset, bytes) || offset % 64 != 0 || !heap_.mark(offset, bytes))
    return corrupt("the base tree leads to no leaf");
  const LeafView view = leaf_at(offset);
  const unsigned which = disown_unfinished(pool_.at<dptree::BaseLeaf>(offset)->set, base.version);
  const LeafSet& set = view.set(which);
  const std::uint64_t count = set.count.load(std::memory_order_relaxed);
  const dptree::Slots there = set.slots();
  const std::uint64_t homes = set.home.load(std::memory_order_relaxed);
  dptree::Slots missing = there;  // in the order
  std::bitset<dptree::BaseLeaf::most_entries> seen;
  if (count > entries) return corrupt("B2: a leaf is overfull");
  unsigned live = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const unsigned slot = view.order(which)[i].load(std::memory_order_relaxed);
    if (slot >= entries || seen[slot]) return corrupt("B2: a leaf's order is none");
    seen[slot] = true;
    if (!dptree::has(there, slot)) continue;
    dptree::take_out(missing, slot);
    const RecordWords words = view.record(slot).load();
    if (Result<void> marked = records_.mark(words); !marked) return marked.error();
    if (last && !records_.less(*last, words)) return corrupt("B2: keys do not ascend");
    const Key key = records_.key_of(words);
    const std::uint64_t hash = hash_of(key);
    if (view.fingerprint(slot).load(std::memory_order_relaxed) != fingerprint_from(hash))
      return corrupt("B3: a fingerprint is not its key's");
    if (!view.is_slot_for(slot, hash, homes)) return corrupt("B5: a record is not at home");
    if (live == 0)
      base.add(last ? separator_between(records_.key_of(*last), key) : key,
               dptree::LeafLink(offset, which, homes));
    last = words;
    ++live;
  }
  base.records += live;
  if (dptree::any(missing)) return corrupt("B2: a record is missing in its leaf's order");
  if (live == 0) base.empty_leaves.push_back(offset);
  return set.next.load(std::memory_order_relaxed);
}

template <class Keys>
auto DpTree<Keys>::recover_base() -> Result<std::unique_ptr<BaseMap>> {
  const State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  auto base = std::make_unique<BaseMap>(state.version);
  const unsigned which = disown_unfinished(anchor_.set, state.version);
  std::optional<RecordWords> last;
  for (std::uint64_t at = anchor_.set[which].next.load(std::memory_order_relaxed);
       at != null_offset;) {
    const Result<std::uint64_t> next = recover_leaf(at, *base, last);
    if (!next) return next.error();
    at = *next;
  }
  base->finish();
  return base;
}

template <class Keys>
bool DpTree<Keys>::is_below(const Snapshot& trees, Key key, std::uint64_t hash) const {
  if (trees.middle != nullptr)
    if (const auto entry = trees.middle->find(key, hash); entry.any()) return entry.is_put();
  return find_in_base(aim_in(trees, key), key, hash).has_value();
}

// Asks for what `is_below` looks at first, where it will. What the record says is not believed yet.
template <class Keys>
void DpTree<Keys>::prefetch_below(const LogRecord& record, const Snapshot& trees) const noexcept {
  if constexpr (!RecordStore<Keys>::has_blobs) {
    const Key key = record.words().key;
    const Aim aim = aim_in(trees, key);
    if (aim.has_leaf()) leaf_at(aim.leaf).prefetch(aim.leaf.which(), hash_of(key));
  }
}

// False: it is none. The blob of a removal may belong to a tree below, which has marked it, or to
// nobody any more; that of a put to the base tree (D4). That of a change that failed is nobody's,
// and stays as long as the log (D5).
template <class Keys>
Result<bool> DpTree<Keys>::replay_record(LogRecord& record, Buffer& tree, const Snapshot& below) {
  Change change{};
  if (!record.counts(tree.seal(), change)) return false;
  const RecordWords words = record.words();
  if constexpr (RecordStore<Keys>::has_blobs)
    if (Result<void> sane = records_.check(words); !sane) return sane.error();
  const Key key = records_.key_of(words);
  const std::uint64_t hash = hash_of(key);
  auto position = tree.lock(key);
  const auto is_present = [&] {
    return position.found.any() ? position.found.is_put() : is_below(below, key, hash);
  };
  const bool comes_to_nothing = (change == Change::insert && is_present()) ||
                                (change == Change::update && !is_present());  // G6
  if constexpr (RecordStore<Keys>::has_blobs)
    if (!heap_.is_marked(words.value)) {
      if (Result<void> marked = records_.mark(words); !marked) return marked.error();
      if (change == Change::removal || comes_to_nothing) tree.discard(words.value, words.key);
    }
  if (comes_to_nothing && position.found.any()) {
    tree.release(position);
    return true;
  }
  if (position.found.is_put()) {
    const RecordWords old = tree.record_of(position.found.word)->words();
    tree.discard(old.value, old.key);
  }
  const std::uint64_t removal = change == Change::removal ? Buffer::removal_bit : 0;
  tree.note_change(hash, !position.found.any());
  tree.make_room(position, key);
  tree.set(position, key, pool_.offset_of(&record) | removal);
  if (comes_to_nothing) tree.set_nothing(position, hash);
  tree.unlock(position);
  return true;
}

/// The segments of a log, newest first.
template <class Keys>
Result<std::vector<std::uint64_t>> DpTree<Keys>::mark_log(std::uint64_t head) {
  const std::size_t bytes = LogSegment::bytes(buffers_.log_entries());
  std::vector<std::uint64_t> chain;
  for (std::uint64_t at = head; at != null_offset;) {
    if (!pool_.contains(at, bytes) || at % sizeof(LogRecord) != 0 || !heap_.mark(at, bytes))
      return detail::corrupt_record("a log leads to no segment", at, pool_);
    chain.push_back(at);
    at = pool_.at<LogSegment>(at)->next.load(std::memory_order_relaxed);
  }
  return chain;
}

/// Returns the segments that have no records yet, newest first.
template <class Keys>
Result<std::vector<std::uint64_t>> DpTree<Keys>::replay(std::uint64_t head, Buffer& tree,
                                                        const Snapshot& below) {
  Result<std::vector<std::uint64_t>> chain = mark_log(head);
  if (!chain) return chain;
  std::size_t empty = chain->size();
  for (std::size_t segment = chain->size(); segment-- > 0;)  // G3
    for (unsigned i = 0; i < buffers_.log_entries(); ++i) {
      constexpr unsigned ahead = 8;
      LogSegment& records = *pool_.at<LogSegment>((*chain)[segment]);
      const Result<bool> replayed = replay_record(records.record(i), tree, below);
      if (!replayed) return replayed.error();
      if (!*replayed) continue;
      empty = segment;
      if (i + ahead < buffers_.log_entries()) prefetch_below(records.record(i + ahead), below);
    }
  chain->resize(empty);
  return chain;
}

// Writes nothing but what `disown_unfinished` does, which may be done again: so a cut inside
// changes nothing.
template <class Keys>
Result<void> DpTree<Keys>::recover_all() {
  const State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  auto base = recover_base();
  if (!base) return base.error();
  std::unique_ptr<Buffer> middle;
  if (state.has_middle) middle = buffers_.make(state.generation - 1, **base);
  const std::uint64_t other = anchor_.log[state.middle()].load(std::memory_order_relaxed);
  if (const auto done = state.has_middle ? replay(other, *middle, {nullptr, nullptr, base->get()})
                                         : mark_log(other);
      !done)
    return done.error();
  std::unique_ptr<Buffer> front = buffers_.make(state.generation, **base);
  std::atomic<std::uint64_t>& log = anchor_.log[state.front];
  auto empty =
      replay(log.load(std::memory_order_relaxed), *front, {nullptr, middle.get(), base->get()});
  if (!empty) return empty.error();
  front->begin_log(log, std::move(*empty));
  current_.announce_merge(state.version);
  current_.announce_rotation(state.generation);
  leftovers_.set_empty_leaf(!(*base)->empty_leaves.empty());
  leftovers_.count_removed((*base)->records);  // nobody knows
  current_.set_first({front.release(), middle.release(), base.value().release()});
  return {};
}

template Result<void> DpTree<IntegerKeys>::recover_all();
template Result<void> DpTree<ByteKeys>::recover_all();

}  // namespace perdure
