#include "index/dptree/recover.h"

#include <bitset>
#include <utility>
#include <vector>

#include "index/leaf/separator.h"

namespace perdure::dptree {

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

template <class Keys>
class Recovery {
 public:
  Recovery(Parts<Keys>& parts, Leftovers& leftovers) : parts_(parts), leftovers_(leftovers) {}

  [[nodiscard]] Result<void> run();

 private:
  using Tree = Buffer<Keys>;
  using Segments = std::vector<std::uint64_t>;

  [[nodiscard]] Result<std::unique_ptr<BaseMap<Keys>>> recover_base();
  [[nodiscard]] Result<std::uint64_t> recover_leaf(std::uint64_t offset, BaseMap<Keys>& base,
                                                   std::optional<RecordWords>& last);
  [[nodiscard]] Result<Segments> mark_log(std::uint64_t head);
  /// `below`: the trees under `tree`, which is none of them.
  [[nodiscard]] Result<Segments> replay(std::uint64_t head, Tree& tree,
                                        const Snapshot<Keys>& below);
  [[nodiscard]] Result<bool> replay_record(LogRecord& record, Tree& tree,
                                           const Snapshot<Keys>& below);

  Parts<Keys>& parts_;
  Leftovers& leftovers_;
};

/// Returns where the next leaf is.
template <class Keys>
Result<std::uint64_t> Recovery<Keys>::recover_leaf(std::uint64_t offset, BaseMap<Keys>& base,
                                                   std::optional<RecordWords>& last) {
  const auto corrupt = [&](const char* what) {
    return detail::corrupt_record(what, offset, parts_.pool);
  };
  const unsigned entries = parts_.leaf_entries;
  const std::size_t bytes = LeafView::bytes(entries);
  if (!parts_.pool.contains(offset, bytes) || offset % 64 != 0 || !parts_.heap.mark(offset, bytes))
    return corrupt("the base tree leads to no leaf");
  const LeafView view = parts_.leaf_at(offset);
  const unsigned which =
      disown_unfinished(parts_.pool.template at<BaseLeaf>(offset)->set, base.version);
  const LeafSet& set = view.set(which);
  const std::uint64_t count = set.count.load(std::memory_order_relaxed);
  const Slots there = set.slots();
  const std::uint64_t complete = set.complete.load(std::memory_order_relaxed);
  Slots missing = there;  // in the order
  std::bitset<BaseLeaf::most_entries> seen;
  if (count > entries) return corrupt("B2: a leaf is overfull");
  unsigned live = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const unsigned slot = view.order(which)[i].load(std::memory_order_relaxed);
    if (slot >= entries || seen[slot]) return corrupt("B2: a leaf's order is none");
    seen[slot] = true;
    if (!has(there, slot)) continue;
    take_out(missing, slot);
    const RecordWords words = view.record(slot).load();
    if (Result<void> marked = parts_.records.mark(words); !marked) return marked.error();
    if (last && !parts_.records.less(*last, words)) return corrupt("B2: keys do not ascend");
    const auto key = parts_.records.key_of(words);
    const std::uint64_t hash = hash_of(key);
    if (view.fingerprint(slot).load(std::memory_order_relaxed) != fingerprint_from(hash))
      return corrupt("B3: a fingerprint is not its key's");
    if (!view.is_slot_for(slot, hash, complete))
      return corrupt("B5: a record is not in its bucket");
    if (live == 0)
      base.add(last ? separator_between(parts_.records.key_of(*last), key) : key,
               LeafLink(offset, which));
    last = words;
    ++live;
  }
  base.records += live;
  if (any(missing)) return corrupt("B2: a record is missing in its leaf's order");
  if (live == 0) base.empty_leaves.push_back(offset);
  return set.next.load(std::memory_order_relaxed);
}

template <class Keys>
auto Recovery<Keys>::recover_base() -> Result<std::unique_ptr<BaseMap<Keys>>> {
  const State state = parts_.state();
  auto base = std::make_unique<BaseMap<Keys>>(state.version);
  const unsigned which = disown_unfinished(parts_.anchor.set, state.version);
  std::optional<RecordWords> last;
  for (std::uint64_t at = parts_.anchor.set[which].next.load(std::memory_order_relaxed);
       at != null_offset;) {
    const Result<std::uint64_t> next = recover_leaf(at, *base, last);
    if (!next) return next.error();
    at = *next;
  }
  base->finish();
  return base;
}

// False: it is no record of this log. The blob of a removal may belong to a tree below, which has
// marked it, or to none; that of a put to the base tree (D4). That of a change that failed belongs
// to no tree, and stays as long as the log (D5).
template <class Keys>
Result<bool> Recovery<Keys>::replay_record(LogRecord& record, Tree& tree,
                                           const Snapshot<Keys>& below) {
  Change change{};
  if (!record.counts(tree.seal(), change)) return false;
  const RecordWords words = record.words();
  if constexpr (RecordStore<Keys>::has_blobs)
    if (Result<void> sane = parts_.records.check(words); !sane) return sane.error();
  const auto key = parts_.records.key_of(words);
  const std::uint64_t hash = hash_of(key);
  auto position = tree.lock(key);
  const auto is_present = [&] {
    return position.found.any() ? position.found.is_put() : parts_.is_below(below, key, hash);
  };
  const bool fails = (change == Change::insert && is_present()) ||
                     (change == Change::update && !is_present());  // G6
  if constexpr (RecordStore<Keys>::has_blobs)
    if (!parts_.heap.is_marked(words.value)) {
      if (Result<void> marked = parts_.records.mark(words); !marked) return marked.error();
      if (change == Change::removal || fails) tree.discard(words.value, words.key);
    }
  if (fails && position.found.any()) {
    tree.release(position);
    return true;
  }
  if (position.found.is_put()) {
    const RecordWords old = tree.record_of(position.found.word)->words();
    tree.discard(old.value, old.key);
  }
  const std::uint64_t removal = change == Change::removal ? Tree::removal_bit : 0;
  tree.log().note_change(hash, !position.found.any());
  tree.make_room(position, key);
  tree.set(position, key, parts_.pool.offset_of(&record) | removal);
  if (fails) tree.mark_failed(position, hash);
  tree.unlock(position);
  return true;
}

/// The segments of a log, newest first.
template <class Keys>
auto Recovery<Keys>::mark_log(std::uint64_t head) -> Result<Segments> {
  const std::size_t bytes = LogSegment::bytes(parts_.buffers.log_entries());
  Segments chain;
  for (std::uint64_t at = head; at != null_offset;) {
    if (!parts_.pool.contains(at, bytes) || at % sizeof(LogRecord) != 0 ||
        !parts_.heap.mark(at, bytes))
      return detail::corrupt_record("a log leads to no segment", at, parts_.pool);
    chain.push_back(at);
    at = parts_.pool.template at<LogSegment>(at)->next.load(std::memory_order_relaxed);
  }
  return chain;
}

/// Returns the segments that have no records yet, newest first.
template <class Keys>
auto Recovery<Keys>::replay(std::uint64_t head, Tree& tree, const Snapshot<Keys>& below)
    -> Result<Segments> {
  Result<Segments> chain = mark_log(head);
  if (!chain) return chain;
  std::size_t empty = chain->size();
  for (std::size_t segment = chain->size(); segment-- > 0;)  // G3
    for (unsigned i = 0; i < parts_.buffers.log_entries(); ++i) {
      LogSegment& records = *parts_.pool.template at<LogSegment>((*chain)[segment]);
      const Result<bool> replayed = replay_record(records.record(i), tree, below);
      if (!replayed) return replayed.error();
      if (*replayed) empty = segment;
    }
  chain->resize(empty);
  return chain;
}

// Writes nothing but what `disown_unfinished` does, which may be done again: so a cut inside
// changes nothing.
template <class Keys>
Result<void> Recovery<Keys>::run() {
  const State state = parts_.state();
  auto base = recover_base();
  if (!base) return base.error();
  std::unique_ptr<Tree> middle;
  if (state.has_middle) middle = parts_.buffers.make(state.generation - 1, **base);
  const std::uint64_t other = parts_.anchor.log[state.middle()].load(std::memory_order_relaxed);
  if (const auto done = state.has_middle ? replay(other, *middle, {nullptr, nullptr, base->get()})
                                         : mark_log(other);
      !done)
    return done.error();
  std::unique_ptr<Tree> front = parts_.buffers.make(state.generation, **base);
  std::atomic<std::uint64_t>& log = parts_.anchor.log[state.front];
  auto empty =
      replay(log.load(std::memory_order_relaxed), *front, {nullptr, middle.get(), base->get()});
  if (!empty) return empty.error();
  front->log().begin(log, std::move(*empty));
  parts_.current.announce_merge(state.version);
  parts_.current.announce_rotation(state.generation);
  leftovers_.set_empty_leaf(!(*base)->empty_leaves.empty());
  leftovers_.count_removed((*base)->records);  // an unknown number
  parts_.current.set_first({front.release(), middle.release(), base.value().release()});
  return {};
}

}  // namespace

template <class Keys>
Result<void> recover_trees(Parts<Keys>& parts, Leftovers& leftovers) {
  return Recovery<Keys>(parts, leftovers).run();
}

template Result<void> recover_trees(Parts<IntegerKeys>&, Leftovers&);
template Result<void> recover_trees(Parts<ByteKeys>&, Leftovers&);

}  // namespace perdure::dptree
