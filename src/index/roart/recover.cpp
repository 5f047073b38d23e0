// Roart as a whole, for recovery and for check_invariants: level by level of the tree, all threads
// walk its nodes, then judge the arrays and records below them. Media are believed in nothing:
// every offset is checked before it is followed. What a power cut left unfinished is taken out
// again (T2); a cut inside recovery leaves the same to do, or less.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "index/record/parallel.h"
#include "index/roart/roart.h"

namespace perdure {

template <class Keys>
class Roart<Keys>::Survey {
 public:
  enum class Purpose : std::uint8_t { recover, check };

  Survey(const Roart& tree, Purpose purpose)
      : tree_(tree), pool_(tree.pool_), heap_(tree.heap_), recovers_(purpose == Purpose::recover) {}

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
  static constexpr unsigned deepest_level =
      Keys::kind == KeyKind::integer ? 8 : 1 + unsigned{max_key_bytes};

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
    return detail::corrupt_record(what, offset, pool_);
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
    if (recovers_)
      node.lock.reset();
    else if (node.lock.peek() % pm::VersionLock::version_step != 0)
      return corrupt("T4: a node is locked at rest", offset);
    count_blocks(1);
    return {};
  }

  /// The entries of a node, ascending; those that a cut fork left twice are taken out.
  [[nodiscard]] Result<std::vector<Entry>> entries_of(Node& node) {
    const std::uint64_t offset = tree_.offset_of(&node);
    std::vector<Entry> entries;
    for (unsigned i = 0; i < Node::capacity(node.kind); ++i) {
      const Entry entry = node.entry(i);
      if (!entry) continue;
      if (entry.symbol() > roart::last_symbol || (node.kind == Kind::n256 && entry.symbol() != i))
        return corrupt("N2: an entry has another's symbol", offset);
      entries.push_back(entry);
    }
    std::ranges::sort(entries, {}, &Entry::symbol);
    if (entries.empty() || entries.front().symbol() != 0)
      return corrupt("N2: a node has no lowest entry", offset);
    for (std::size_t i = 1; i < entries.size();) {
      if (entries[i].symbol() == entries[i - 1].symbol())
        return corrupt("N2: two entries have the same symbol", offset);
      if (!entries[i].same_child(entries[i - 1])) {
        ++i;
        continue;
      }
      if (!recovers_) return corrupt("T2: two entries lead to the same child", offset);
      pm::store_persist(node.word_of(entries[i]), 0);
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return entries;
  }

  [[nodiscard]] Result<void> descend(const Branch& from, Below& below) {
    Node& node = *pool_.at<Node>(from.offset);
    const Result<std::vector<Entry>> read = entries_of(node);
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
                         for (std::size_t i = begin; i < end; ++i) {
                           if (i + ahead < end)
                             pm::prefetch_range(pool_.at<void>(arrays[i + ahead].offset),
                                                sizeof(LeafArray));
                           if (Result<void> done = judge_array(arrays[i]); !done) return done;
                         }
                         return {};
                       });
  }

  [[nodiscard]] Result<void> judge_array(const Leaf& leaf) {
    LeafArray& array = *pool_.at<LeafArray>(leaf.offset);
    if (recovers_)
      array.lock.reset();
    else if (array.lock.peek() % pm::VersionLock::version_step != 0)
      return corrupt("T4: a leaf array is locked at rest", leaf.offset);
    bool cut = false;
    std::uint64_t records = 0;
    std::vector<Key> keys;
    for (unsigned i = 0; i < LeafArray::most_entries; ++i)
      if (const Slot slot = array.slot(i); pool_.contains(slot.offset(), sizeof(LeafRecord)))
        tree_.records_.prefetch(slot.offset());
    for (unsigned i = 0; i < LeafArray::most_entries; ++i) {
      const Slot slot = array.slot(i);
      if (!slot) continue;
      if (i >= tree_.entries_) return corrupt("A1: a slot beyond the last is used", leaf.offset);
      if (Result<void> sane = tree_.records_.check(slot.offset()); !sane) return sane;
      const Key key = tree_.records_.key_of(slot.offset());
      if (Probe(key).fingerprint != slot.fingerprint())
        return corrupt("A1: a fingerprint is not its key's", leaf.offset);
      if (!is_on(*leaf.path, Path(key)))
        return corrupt("N1: a record is not on the path to it", slot.offset());
      const auto level = static_cast<unsigned>(leaf.path->size());
      const unsigned symbol = roart::symbol_at(Path(key), level);
      if (symbol >= leaf.high &&
          recovers_) {  // T2: it is in the array beside, or was removed there
        array.word[i].store(0, std::memory_order_relaxed);
        cut = true;
        continue;
      }
      if (symbol < leaf.low || symbol >= leaf.high)
        return corrupt("T2: a record is below another's entry", slot.offset());
      if (recovers_) {
        if (Result<void> marked = tree_.records_.mark(slot.offset()); !marked) return marked;
      } else {
        keys.push_back(key);
      }
      ++records;
    }
    count_blocks(1 + records);
    if (cut) pm::persist(array.word.data(), sizeof array.word);
    std::ranges::sort(keys);
    if (std::ranges::adjacent_find(keys) != keys.end())
      return corrupt("A1: two slots have the same key", leaf.offset);
    return {};
  }

  [[nodiscard]] static bool is_on(const std::string& path, const Path& key) {
    for (unsigned i = 0; i < path.size(); ++i)
      if (roart::symbol_at(key, i) != static_cast<std::uint8_t>(path[i]) + 1U) return false;
    return true;
  }

  const Roart& tree_;
  Pool& pool_;
  Heap& heap_;
  const bool recovers_;
  std::atomic<std::uint64_t> blocks_{0};
};

template <class Keys>
Result<void> Roart<Keys>::recover_tree() {
  return Survey(*this, Survey::Purpose::recover).run();
}

template <class Keys>
Result<void> Roart<Keys>::check_invariants() const {
  epochs_.drain();
  Survey survey(*this, Survey::Purpose::check);
  if (Result<void> sound = survey.run(); !sound) return sound;
  // With other roots in the pool their blocks cannot be told from ours.
  const std::uint64_t reachable = 1 + survey.blocks();
  const std::uint64_t live = heap_.usage().live_blocks;
  if (pool_.roots().size() == 1 && live != reachable)
    return Error{ErrorCode::corrupt,
                 "roart breaks A2: " + std::to_string(live) + " blocks are live and " +
                     std::to_string(reachable) + " reachable",
                 pool_.path(), "restore the pool from a copy"};
  return {};
}

template Result<void> Roart<IntegerKeys>::recover_tree();
template Result<void> Roart<ByteKeys>::recover_tree();
template Result<void> Roart<IntegerKeys>::check_invariants() const;
template Result<void> Roart<ByteKeys>::check_invariants() const;

}  // namespace perdure
