// A tree of three levels: a directory and parents in DRAM, leaves of four records in a chain on
// media, from which recovery makes the rest.
//
// B1  leaf i holds the keys from its `low` up to the next leaf's.
// B2  a parent holds the leaves from its own bound up to the next parent's, and the directory all
//     parents.
// Locks: a leaf's, then a parent's, then the directory's.
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>

#include "crash/toys/toy.h"

namespace perdure::crash {
namespace {

struct TreeLeaf {
  static constexpr unsigned slots = 4;
  struct Record {
    Word key;
    Word value;
  };
  Word used;  ///< bit i: record i is there
  Word next;
  Word low;  ///< never changes
  alignas(64) Record record[slots];
};

struct TreeRoot {
  Word head;
};

struct Parent {
  static constexpr std::size_t most_children = 4;
  pm::VersionLock lock;
  std::map<std::uint64_t, std::uint64_t> children;  ///< leaves by their lows
  std::uint64_t end = ~std::uint64_t{0};            ///< the next parent's bound, or none
};

class TreeToy final : public Toy {
 public:
  TreeToy(Pool& pool, TreeRoot& root, Defect defect, bool repaired)
      : Toy(defect, repaired), pool_(pool), root_(root) {}

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    return write(key, [&](Found& at) {
      return at.slot < TreeLeaf::slots ? Outcome::exists : add(at, key, value);
    });
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    return write(key, [&](Found& at) {
      return at.slot < TreeLeaf::slots ? change(at, value) : add(at, key, value);
    });
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    return write(key, [&](Found& at) {
      return at.slot < TreeLeaf::slots ? change(at, value) : Outcome::not_found;
    });
  }
  Outcome remove(std::uint64_t key) override {
    return write(key, [&](Found& at) {
      if (at.slot == TreeLeaf::slots) return Outcome::not_found;
      TreeLeaf& leaf = this->leaf(at.leaf);
      pm::store_persist(leaf.used, leaf.used.load(relaxed) & ~bit(at.slot));
      return Outcome::ok;
    });
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    return write(key, [&](Found& at) {
      if (at.slot == TreeLeaf::slots) return Outcome::not_found;
      value = leaf(at.leaf).record[at.slot].value.load(relaxed);
      return Outcome::ok;
    });
  }
  [[nodiscard]] std::uint64_t size() const override {
    std::uint64_t records = 0;
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = leaf(at).next)
      records += static_cast<unsigned>(std::popcount(leaf(at).used.load(relaxed)));
    return records;
  }
  [[nodiscard]] Result<void> check_invariants() const override { return {}; }

  [[nodiscard]] Result<void> recover() {
    std::map<std::uint64_t, std::uint64_t> leaves;
    std::set<std::uint64_t> locked;
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = leaf(at).next) {
      if (!pool_.contains(at, sizeof(TreeLeaf)) || !pool_.heap().mark(at, sizeof(TreeLeaf)))
        return damaged("B1: the chain leads to no block, or twice to one");
      finish_split(leaf(at));
      leaves[leaf(at).low.load(relaxed)] = at;
    }
    plant(leaves);
    return {};
  }
  void plant(const std::map<std::uint64_t, std::uint64_t>& leaves) {
    Parent* parent = nullptr;
    for (const auto& [low, at] : leaves) {
      locks_[at] = std::make_unique<pm::VersionLock>();
      if (parent == nullptr || parent->children.size() == Parent::most_children) {
        if (parent != nullptr) parent->end = low;
        parent = (parents_[low] = std::make_unique<Parent>()).get();
      }
      parent->children[low] = at;
    }
  }

 private:
  struct Found {
    Parent* parent;  ///< where the search has come by
    std::uint64_t leaf;
    unsigned slot;
  };

  static void lock(pm::VersionLock& lock) {
    while (!lock.lock()) {
    }
  }
  [[nodiscard]] TreeLeaf& leaf(std::uint64_t at) const { return *pool_.at<TreeLeaf>(at); }

  [[nodiscard]] Parent* parent_of(std::uint64_t key) {
    lock(directory_);
    Parent* const parent = std::prev(parents_.upper_bound(key))->second.get();
    directory_.unlock();
    return parent;
  }
  /// The leaf that a search for the key comes to, and by which parent.
  [[nodiscard]] Found descend(std::uint64_t key) {
    for (;;) {
      Parent* const parent = parent_of(key);
      lock(parent->lock);
      const bool holds = parent->end == ~std::uint64_t{0} || key < parent->end;
      const std::uint64_t at =
          holds ? std::prev(parent->children.upper_bound(key))->second : null_offset;
      parent->lock.unlock();
      if (holds) return {parent, at, TreeLeaf::slots};
    }
  }

  /// With the leaf locked.
  template <class Work>
  Outcome write(std::uint64_t key, Work&& work) {
    for (;;) {
      Found at = descend(key);
      pm::VersionLock& held = *locks_[at.leaf];
      lock(held);
      // It may have been split while the lock was waited for.
      if (descend(key).leaf != at.leaf) {
        held.unlock();
        continue;
      }
      const TreeLeaf& found = leaf(at.leaf);
      for (std::uint64_t left = found.used.load(relaxed); left != 0; left &= left - 1) {
        const auto slot = static_cast<unsigned>(std::countr_zero(left));
        if (found.record[slot].key.load(relaxed) == key) at.slot = slot;
      }
      const Outcome outcome = work(at);
      held.unlock();
      return outcome;
    }
  }

  Outcome change(const Found& at, std::uint64_t value) {
    pm::store_persist(leaf(at.leaf).record[at.slot].value, value);
    return Outcome::ok;
  }

  Outcome add(const Found& at, std::uint64_t key, std::uint64_t value) {
    TreeLeaf& old = leaf(at.leaf);
    if (std::popcount(old.used.load(relaxed)) < static_cast<int>(TreeLeaf::slots)) {
      put(old, key, value);
      return Outcome::ok;
    }
    Reservation block = pool_.heap().reserve(sizeof(TreeLeaf));
    if (!block) return Outcome::out_of_space;
    const std::uint64_t made = block.offset;
    split(at, block);
    put(key < leaf(made).low.load(relaxed) ? old : leaf(made), key, value);
    return Outcome::ok;
  }
  static void put(TreeLeaf& leaf, std::uint64_t key, std::uint64_t value) {
    const std::uint64_t used = leaf.used.load(relaxed);
    const auto slot = static_cast<unsigned>(std::countr_one(used));
    leaf.record[slot].key.store(key, relaxed);
    leaf.record[slot].value.store(value, relaxed);
    pm::persist(&leaf.record[slot], sizeof(TreeLeaf::Record));
    pm::store_persist(leaf.used, used | bit(slot));
  }

  /// The upper half moves to `block`, whose leaf nobody can find before the parent has it.
  void split(const Found& at, Reservation& block) {
    TreeLeaf& old = leaf(at.leaf);
    std::array<std::uint64_t, TreeLeaf::slots> keys{};
    for (unsigned i = 0; i < keys.size(); ++i) keys[i] = old.record[i].key.load(relaxed);
    std::ranges::sort(keys);
    const std::uint64_t low = keys[TreeLeaf::slots / 2];
    const std::uint64_t at_new = block.offset;
    TreeLeaf& made = leaf(at_new);
    made.low.store(low, relaxed);
    made.next.store(old.next.load(relaxed), relaxed);
    std::uint64_t moved = 0;
    for (unsigned i = 0; i < TreeLeaf::slots; ++i) {
      made.record[i].key.store(old.record[i].key.load(relaxed), relaxed);
      made.record[i].value.store(old.record[i].value.load(relaxed), relaxed);
      if (made.record[i].key.load(relaxed) >= low) moved |= bit(i);
    }
    made.used.store(moved, relaxed);
    pm::persist(&made, sizeof made);
    locks_[at_new] = std::make_unique<pm::VersionLock>();
    pool_.heap().publish({&block, 1}, &old.next, at_new);
    pm::store_persist(old.used, old.used.load(relaxed) & ~moved);
    adopt(at.parent, low, at_new);
  }
  /// What a split has moved and not yet deleted, because the power was cut.
  void finish_split(TreeLeaf& left) {
    if (left.next.load(relaxed) == null_offset || !pool_.contains(left.next, sizeof(TreeLeaf)))
      return;
    const std::uint64_t end = leaf(left.next).low.load(relaxed);
    std::uint64_t used = left.used.load(relaxed);
    for (unsigned i = 0; i < TreeLeaf::slots; ++i)
      if (left.record[i].key.load(relaxed) >= end) used &= ~bit(i);
    if (used != left.used.load(relaxed)) pm::store_persist(left.used, used);
  }

  /// B2. The defect: the parent that the search has come by may have been split since.
  void adopt(Parent* parent, std::uint64_t low, std::uint64_t at) {
    lock(parent->lock);
    while (!has(Defect::stale_parent) && parent->end <= low) {
      parent->lock.unlock();
      parent = parent_of(low);
      lock(parent->lock);
    }
    parent->children[low] = at;
    if (parent->children.size() > Parent::most_children) split_parent(*parent);
    parent->lock.unlock();
  }
  void split_parent(Parent& old) {
    auto made = std::make_unique<Parent>();
    const auto middle =
        std::next(old.children.begin(), static_cast<std::ptrdiff_t>(old.children.size() / 2));
    made->children.insert(middle, old.children.end());
    made->end = old.end;
    old.end = middle->first;
    old.children.erase(middle, old.children.end());
    lock(directory_);
    parents_[old.end] = std::move(made);
    directory_.unlock();
  }

  Pool& pool_;
  TreeRoot& root_;
  pm::VersionLock directory_;
  std::map<std::uint64_t, std::unique_ptr<Parent>> parents_;         ///< by their bounds
  std::map<std::uint64_t, std::unique_ptr<pm::VersionLock>> locks_;  ///< of leaves
};

}  // namespace

std::vector<MediaStruct> tree_media(const IndexOptions&) {
  constexpr auto record = static_cast<std::uint32_t>(sizeof(TreeLeaf::Record));
  constexpr auto first = static_cast<std::uint32_t>(offsetof(TreeLeaf, record));
  return {{"leaf",
           sizeof(TreeLeaf),
           {{"used", offsetof(TreeLeaf, used), 8},
            {"next", offsetof(TreeLeaf, next), 8},
            {"low", offsetof(TreeLeaf, low), 8},
            {"record[].key", first, 8, TreeLeaf::slots, record},
            {"record[].value", first + 8, 8, TreeLeaf::slots, record}}}};
}

Result<std::unique_ptr<IntegerIndex>> open_tree(const IndexPlace& place, Defect defect,
                                                bool repaired, bool create) {
  Pool& pool = *place.pool;
  if (create) {
    Reservation block = pool.heap().reserve(sizeof(TreeRoot));
    Reservation first = pool.heap().reserve(sizeof(TreeLeaf));
    if (!block || !first) return Error{ErrorCode::out_of_space, "no room for a toy", "", ""};
    TreeLeaf& leaf = *pool.at<TreeLeaf>(first.offset);
    leaf.used.store(0, relaxed);
    leaf.next.store(null_offset, relaxed);
    leaf.low.store(0, relaxed);
    pm::persist(&leaf, sizeof leaf);
    const std::uint64_t at = first.offset;
    auto& root = *pool.at<TreeRoot>(block.offset);
    root.head.store(at, relaxed);
    pm::persist(&root, sizeof root);
    pool.heap().publish({&first, 1});
    if (auto done = pool.add_root(place.root_name, block); !done) return done.error();
    auto toy = std::make_unique<TreeToy>(pool, root, defect, repaired);
    toy->plant({{0, at}});
    return std::unique_ptr<IntegerIndex>(std::move(toy));
  }
  return recovered(place, [&](std::uint64_t at) {
    return std::make_unique<TreeToy>(pool, *pool.at<TreeRoot>(at), defect, repaired);
  });
}

}  // namespace perdure::crash
