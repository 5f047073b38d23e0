// Roart as a whole, for recovery before anybody is served and for check_invariants: level by level
// of the tree, all threads walk its nodes, then judge the arrays and records below them. Media are
// believed in nothing: every offset is checked before it is followed. What a power cut left
// unfinished is taken out again (T2); a cut inside recovery leaves the same to do, or less.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "index/common/parallel.h"
#include "index/roart/roart.h"

namespace perdure {

template <class Keys>
class Roart<Keys>::Survey {
 public:
  enum class Purpose : std::uint8_t { recover, recover_anew, check };

  Survey(const Roart& tree, Purpose purpose)
      : tree_(tree),
        pool_(tree.pool_),
        heap_(tree.heap_),
        purpose_(purpose),
        recovers_(purpose != Purpose::check) {}

  [[nodiscard]] Result<void> run() {
    std::vector<Branch> level(1);
    level[0].offset = tree_.offset_of(tree_.root_);
    if (Result<void> sane = check_node(level[0].offset, Kind::n4, 0, 0, level[0].path); !sane)
      return sane;
    if (tree_.root_->level != 0) return corrupt("T1: the root is not at level 0", level[0].offset);
    // Levels ascend (N1), which ends a walk in a circle.
    while (!level.empty()) {
      std::vector<Below> parts(std::max(1U, tree_.threads_));
      Result<void> done =
          in_parallel(level.size(), tree_.threads_,
                      [&](std::size_t begin, std::size_t end, std::size_t part) -> Result<void> {
                        for (std::size_t i = begin; i < end; ++i)
                          if (Result<void> sane = descend(level[i], parts[part]); !sane)
                            return sane;
                        return {};
                      });
      if (done) done = judge_arrays(joined(parts, &Below::arrays));
      if (!done) return done;
      level = joined(parts, &Below::nodes);
    }
    return {};
  }
  /// Nodes, arrays and records.
  [[nodiscard]] std::uint64_t blocks() const noexcept {
    return blocks_.load(std::memory_order_relaxed);
  }

 private:
  /// A node that was checked, and the path to what is below it.
  struct Branch {
    std::uint64_t offset;
    std::string path;
  };
  /// An array, and what its entry stands for.
  struct Leaf {
    std::uint64_t offset;
    const std::string* path;  ///< of the node
    unsigned low;
    unsigned high;  ///< the first symbol that is not its own
  };
  /// What one thread finds below nodes of a level.
  struct Below {
    std::vector<Branch> nodes;
    std::vector<Leaf> arrays;
  };

  template <class Part>
  [[nodiscard]] static std::vector<Part> joined(std::vector<Below>& all,
                                                std::vector<Part> Below::*part) {
    std::vector<Part> whole = std::move(all[0].*part);
    for (std::size_t i = 1; i < all.size(); ++i)
      std::ranges::move(all[i].*part, std::back_inserter(whole));
    return whole;
  }

  void count_blocks(std::uint64_t more) noexcept {
    blocks_.fetch_add(more, std::memory_order_relaxed);
  }
  [[nodiscard]] Error corrupt(const char* what, std::uint64_t offset) const {
    return tree_.corrupt(what, offset);
  }

  /// Judges a node below level `above` and lengthens `path` by its prefix.
  [[nodiscard]] Result<void> check_node(std::uint64_t offset, Kind kind, unsigned above,
                                        unsigned least, std::string& path) {
    if (!Node::is_kind(kind) || !pool_.contains(offset, Node::bytes_of(kind)) ||
        offset % pm::cache_line_bytes != 0)
      return corrupt("N4: an entry leads to no node", offset);
    Node& node = *pool_.at<Node>(offset);
    if (recovers_ && !heap_.mark(offset, Node::bytes_of(kind)))
      return corrupt("N4: a node is no block of the heap, or is linked twice", offset);
    if (node.kind != kind) return corrupt("N3: a node is not of its entry's kind", offset);
    if (node.level < least || node.level > deepest_level || node.level - above > Node::held_bytes)
      return corrupt("N1: a node's level is impossible", offset);
    const unsigned first = node.level < Node::held_bytes ? 0 : node.level - Node::held_bytes;
    for (unsigned at = first; at < above; ++at)
      if (node.byte_at(at) != static_cast<std::uint8_t>(path[at]))
        return corrupt("N1: a node is not on the path to it", offset);
    for (unsigned at = above; at < node.level; ++at)
      path.push_back(static_cast<char>(node.byte_at(at)));
    if (Result<void> fit = judge_lock(node.lock, "T4: a node is locked at rest", offset); !fit)
      return fit;
    count_blocks(1);
    return {};
  }

  [[nodiscard]] Result<void> descend(const Branch& from, Below& below) {
    Node& node = *pool_.at<Node>(from.offset);
    const Result<std::vector<Entry>> read = tree_.judge_entries(node, recovers_);
    if (!read) return read.error();
    const std::vector<Entry>& entries = *read;
    for (const Entry entry : entries)
      if (!entry.is_array() && pool_.contains(entry.offset(), sizeof(Node)))
        pm::prefetch(pool_.at<void>(entry.offset()));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry entry = entries[i];
      const std::uint64_t at = entry.offset();
      const unsigned high =
          i + 1 < entries.size() ? entries[i + 1].symbol() : roart::last_symbol + 1;
      if (entry.is_array()) {
        if (!pool_.contains(at, sizeof(LeafArray)) || at % alignof(LeafArray) != 0)
          return corrupt("N4: an entry leads to no leaf array", at);
        if (recovers_ && !heap_.mark(at, sizeof(LeafArray)))
          return corrupt("N4: a leaf array is no block of the heap, or is linked twice", at);
        below.arrays.push_back({at, &from.path, entry.symbol(), high});
        continue;
      }
      std::string path = from.path;
      if (Result<void> sane = check_node(at, entry.kind(), node.level, node.level + 1, path); !sane)
        return sane;
      const unsigned own = static_cast<std::uint8_t>(path[node.level]) + 1U;
      if (own < entry.symbol() || own >= high)
        return corrupt("T2: a node is below another's entry", at);
      below.nodes.push_back({at, std::move(path)});
    }
    return {};
  }

  [[nodiscard]] Result<void> judge_arrays(const std::vector<Leaf>& arrays) {
    return in_parallel(arrays.size(), tree_.threads_,
                       [&](std::size_t begin, std::size_t end, std::size_t) -> Result<void> {
                         constexpr std::size_t ahead = 4;
                         std::vector<Key> keys;
                         for (std::size_t i = begin; i < end; ++i) {
                           if (i + ahead < end)
                             pm::prefetch_range(pool_.at<void>(arrays[i + ahead].offset),
                                                sizeof(LeafArray));
                           if (Result<void> done = judge_array(arrays[i], keys); !done) return done;
                         }
                         return {};
                       });
  }

  /// `keys` is room for those of the array.
  [[nodiscard]] Result<void> judge_array(const Leaf& leaf, std::vector<Key>& keys) {
    LeafArray& array = *pool_.at<LeafArray>(leaf.offset);
    if (Result<void> fit =
            judge_lock(array.lock, "T4: a leaf array is locked at rest", leaf.offset);
        !fit)
      return fit;
    // The root's byte is no key's.
    const auto level = static_cast<unsigned>(leaf.path->size());
    const Path path = path_of(std::string_view(*leaf.path).substr(level == 0 ? 0 : 1));
    keys.clear();
    const Result<std::uint64_t> records =
        tree_.judge_records(array, path, level, leaf.low, leaf.high, recovers_ ? nullptr : &keys);
    if (!records) return records.error();
    count_blocks(1 + *records);
    std::ranges::sort(keys);
    if (std::ranges::adjacent_find(keys) != keys.end())
      return corrupt("A1: two slots have the same key", leaf.offset);
    return {};
  }

  [[nodiscard]] Result<void> judge_lock(roart::OpeningLock& lock, const char* held,
                                        std::uint64_t offset) {
    if (recovers_) {
      lock.reset(tree_.opening_);
      if (purpose_ == Purpose::recover_anew) pm::persist(&lock, sizeof lock);  // K2
      return {};
    }
    const std::uint64_t word = lock.peek();
    if (word % roart::OpeningLock::version_step != 0) return corrupt(held, offset);
    if (roart::OpeningLock::opening_of(word) != tree_.opening_)
      return corrupt("T7: the walk has left something out", offset);
    return {};
  }

  const Roart& tree_;
  Pool& pool_;
  Heap& heap_;
  const Purpose purpose_;
  const bool recovers_;
  std::atomic<std::uint64_t> blocks_{0};
};

template <class Keys>
Result<void> Roart<Keys>::recover_tree(bool anew) {
  using Purpose = typename Survey::Purpose;
  return Survey(*this, anew ? Purpose::recover_anew : Purpose::recover).run();
}

template <class Keys>
Result<void> Roart<Keys>::check_invariants() const {
  finish_walk();
  if (state_.is_damaged()) return state_.damage();
  epochs_.drain();
  Survey survey(*this, Survey::Purpose::check);
  if (Result<void> sound = survey.run(); !sound) return sound;
  // With other roots in the pool their blocks cannot be told from ours.
  const std::uint64_t reachable = 1 + (has_restart_ ? 1 : 0) + survey.blocks();
  const std::uint64_t live = heap_.usage().live_blocks;
  if (pool_.roots().size() == 1 && live != reachable)
    return Error{ErrorCode::corrupt,
                 "roart breaks A2: " + std::to_string(live) + " blocks are live and " +
                     std::to_string(reachable) + " reachable",
                 pool_.path(), "restore the pool from a copy"};
  return {};
}

template Result<void> Roart<IntegerKeys>::recover_tree(bool);
template Result<void> Roart<ByteKeys>::recover_tree(bool);
template Result<void> Roart<IntegerKeys>::check_invariants() const;
template Result<void> Roart<ByteKeys>::check_invariants() const;

}  // namespace perdure
