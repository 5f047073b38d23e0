// A chain of nodes with four records each, which its recovery mends: a node that a cut has left
// empty is unlinked, a record that it has left twice is removed once, and a move that it has left
// half done is done again. What a recovery forgets to make durable is lost only by a second cut,
// after operations that have relied on it.
//
// C1  every node of the chain but for those being changed holds a record.
// C2  a key is in one node.
// C3  `from` names a record that is being moved to `to`, or is 0.
#include <bit>
#include <set>

#include "crash/toys/toy.h"

namespace perdure::crash {
namespace {

struct ChainNode {
  static constexpr unsigned slots = 4;
  struct Record {
    Word key;
    Word value;
  };
  Word used;              ///< bit i: record i is there
  alignas(64) Word next;  ///< in a line of its own: no other change takes it along
  alignas(64) Record record[slots];
};
static_assert(sizeof(ChainNode) == 192);

struct ChainRoot {
  Word head;
  alignas(64) Word from;  ///< offset of a node and number of a record, or 0
  Word to;
};

class ChainToy final : public Toy {
 public:
  ChainToy(Pool& pool, ChainRoot& root, Defect defect, bool repaired)
      : Toy(defect, repaired), pool_(pool), root_(root) {}

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    return locked([&] { return find(key) ? Outcome::exists : add(key, value); });
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    return locked([&] {
      const Place place = find(key);
      return place ? change(place, key, value) : add(key, value);
    });
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    return locked([&] {
      const Place place = find(key);
      return place ? change(place, key, value) : Outcome::not_found;
    });
  }
  Outcome remove(std::uint64_t key) override {
    return locked([&] {
      const Place place = find(key);
      if (!place) return Outcome::not_found;
      take_out(place);
      return Outcome::ok;
    });
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    return locked([&] {
      const Place place = find(key);
      if (!place) return Outcome::not_found;
      value = record(place).value.load(relaxed);
      return Outcome::ok;
    });
  }
  [[nodiscard]] std::uint64_t size() const override {
    std::uint64_t records = 0;
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = node(at).next)
      records += static_cast<unsigned>(std::popcount(node(at).used.load(relaxed)));
    return records;
  }
  [[nodiscard]] Result<void> check_invariants() const override {
    std::uint64_t nodes = 0;
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = node(at).next) {
      ++nodes;
      if (node(at).used.load(relaxed) == 0) return damaged("C1: an empty node");
    }
    if (pool_.heap().usage().live_blocks != nodes + 1)
      return damaged("the heap holds other blocks than the chain reaches");
    return {};
  }

  [[nodiscard]] Result<void> recover() {
    finish_move();
    std::set<std::uint64_t> seen;
    Word* link = &root_.head;
    while (*link != null_offset) {
      const std::uint64_t at = *link;
      if (!pool_.contains(at, sizeof(ChainNode))) return damaged("the chain leads to no node");
      remove_duplicates(at, seen);
      if (node(at).used.load(relaxed) == 0) {  // C1; its block is not marked, so it is free
        link->store(node(at).next.load(relaxed), relaxed);
        if (!has(Defect::recovery_unlink)) pm::persist(link, sizeof *link);
        continue;
      }
      if (!pool_.heap().mark(at, sizeof(ChainNode)))
        return damaged("the chain leads to no block, or twice to one");
      link = &node(at).next;
    }
    return {};
  }

 private:
  struct Place {
    std::uint64_t node = null_offset;
    std::uint64_t slot = 0;
    explicit operator bool() const { return node != null_offset; }
  };

  template <class Work>
  Outcome locked(Work&& work) {
    while (!lock_.lock()) {
    }
    const Outcome outcome = work();
    lock_.unlock();
    return outcome;
  }
  [[nodiscard]] ChainNode& node(std::uint64_t at) const { return *pool_.at<ChainNode>(at); }
  [[nodiscard]] ChainNode::Record& record(const Place& place) const {
    return node(place.node).record[place.slot];
  }

  [[nodiscard]] Place find(std::uint64_t key) const {
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = node(at).next)
      for (std::uint64_t left = node(at).used.load(relaxed); left != 0; left &= left - 1) {
        const Place place{at, static_cast<std::uint64_t>(std::countr_zero(left))};
        if (record(place).key.load(relaxed) == key) return place;
      }
    return {};
  }
  /// A free record in another node than `but`.
  [[nodiscard]] Place find_room(std::uint64_t but) const {
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = node(at).next) {
      const auto slot = static_cast<std::uint64_t>(std::countr_one(node(at).used.load(relaxed)));
      if (at != but && slot < ChainNode::slots) return {at, slot};
    }
    return {};
  }

  void fill(const Place& place, std::uint64_t key, std::uint64_t value) {
    record(place).key.store(key, relaxed);
    record(place).value.store(value, relaxed);
    pm::persist(&record(place), sizeof(ChainNode::Record));
  }
  void set_used(std::uint64_t at, std::uint64_t used) { pm::store_persist(node(at).used, used); }

  Outcome add(std::uint64_t key, std::uint64_t value, std::uint64_t but = null_offset) {
    if (const Place place = find_room(but)) {
      fill(place, key, value);
      set_used(place.node, node(place.node).used.load(relaxed) | bit(place.slot));
      return Outcome::ok;
    }
    Reservation block = pool_.heap().reserve(sizeof(ChainNode));
    if (!block) return Outcome::out_of_space;
    ChainNode& made = node(block.offset);
    made.used.store(1, relaxed);
    made.next.store(root_.head.load(relaxed), relaxed);
    made.record[0].key.store(key, relaxed);
    made.record[0].value.store(value, relaxed);
    pm::persist(&made, sizeof made);
    const std::uint64_t at = block.offset;
    pool_.heap().publish({&block, 1}, &root_.head, at);
    return Outcome::ok;
  }

  /// The record that is made twice takes the old one's place: first it is there, then it is here no
  /// more.
  Outcome change(const Place& place, std::uint64_t key, std::uint64_t value) {
    if (!is(Defect::recovery_duplicate)) {
      pm::store_persist(record(place).value, value);
      return Outcome::ok;
    }
    const Outcome added = add(key, value, place.node);
    if (added == Outcome::ok) take_out(place);
    return added;
  }

  void take_out(const Place& place) {
    set_used(place.node, node(place.node).used.load(relaxed) & ~bit(place.slot));
    if (is(Defect::recovery_half_move)) move_last(place.node);
    if (node(place.node).used.load(relaxed) == 0) unlink(place.node);
  }

  /// A node that holds one record gives it to another node.
  void move_last(std::uint64_t at) {
    const std::uint64_t used = node(at).used.load(relaxed);
    const Place to = find_room(at);
    if (std::popcount(used) != 1 || !to) return;
    root_.to.store(to.node | to.slot, relaxed);
    root_.from.store(at | static_cast<std::uint64_t>(std::countr_zero(used)), relaxed);
    pm::persist(&root_.from, 2 * sizeof(Word));
    move_logged();
    pm::store_persist(root_.from, 0);
  }
  void move_logged() {
    constexpr std::uint64_t slot = ChainNode::slots - 1;
    const Place from{root_.from.load(relaxed) & ~slot, root_.from.load(relaxed) & slot};
    const Place to{root_.to.load(relaxed) & ~slot, root_.to.load(relaxed) & slot};
    fill(to, record(from).key.load(relaxed), record(from).value.load(relaxed));
    set_used(to.node, node(to.node).used.load(relaxed) | bit(to.slot));
    set_used(from.node, 0);
  }
  /// C3. The defect: the move is done again after the next cut, too.
  void finish_move() {
    if (root_.from.load(relaxed) == 0) return;
    move_logged();
    root_.from.store(0, relaxed);
    if (!has(Defect::recovery_half_move)) pm::persist(&root_.from, sizeof root_.from);
  }
  /// C2. The defect: the one that was removed comes again after the next cut.
  void remove_duplicates(std::uint64_t at, std::set<std::uint64_t>& seen) {
    std::uint64_t used = node(at).used.load(relaxed);
    for (std::uint64_t left = used; left != 0; left &= left - 1) {
      const Place place{at, static_cast<std::uint64_t>(std::countr_zero(left))};
      if (!seen.insert(record(place).key.load(relaxed)).second) used &= ~bit(place.slot);
    }
    if (used == node(at).used.load(relaxed)) return;
    node(at).used.store(used, relaxed);
    if (!has(Defect::recovery_duplicate)) pm::persist(&node(at).used, sizeof(Word));
  }

  void unlink(std::uint64_t gone) {
    Word* link = &root_.head;
    while (*link != gone) link = &node(*link).next;
    pm::store_persist(*link, node(gone).next.load(relaxed));
    pool_.heap().free(gone, sizeof(ChainNode));
  }

  Pool& pool_;
  ChainRoot& root_;
  pm::VersionLock lock_;
};

}  // namespace

std::vector<MediaStruct> chain_media(const IndexOptions&) {
  constexpr auto record = static_cast<std::uint32_t>(sizeof(ChainNode::Record));
  constexpr auto first = static_cast<std::uint32_t>(offsetof(ChainNode, record));
  return {{"root",
           sizeof(ChainRoot),
           {{"head", offsetof(ChainRoot, head), 8},
            {"from", offsetof(ChainRoot, from), 8},
            {"to", offsetof(ChainRoot, to), 8}}},
          {"node",
           sizeof(ChainNode),
           {{"used", offsetof(ChainNode, used), 8},
            {"next", offsetof(ChainNode, next), 8},
            {"record[].key", first, 8, ChainNode::slots, record},
            {"record[].value", first + 8, 8, ChainNode::slots, record}}}};
}

Result<std::unique_ptr<IntegerIndex>> open_chain(const IndexPlace& place, Defect defect,
                                                 bool repaired, bool create) {
  Pool& pool = *place.pool;
  if (create) {
    Reservation block = pool.heap().reserve(sizeof(ChainRoot));
    if (!block) return Error{ErrorCode::out_of_space, "no room for a toy", "", ""};
    auto& root = *pool.at<ChainRoot>(block.offset);
    root.head.store(null_offset, relaxed);
    root.from.store(0, relaxed);
    root.to.store(0, relaxed);
    pm::persist(&root, sizeof root);
    if (auto done = pool.add_root(place.root_name, block); !done) return done.error();
    return std::unique_ptr<IntegerIndex>(std::make_unique<ChainToy>(pool, root, defect, repaired));
  }
  return recovered(place, [&](std::uint64_t at) {
    return std::make_unique<ChainToy>(pool, *pool.at<ChainRoot>(at), defect, repaired);
  });
}

}  // namespace perdure::crash
