// SearchLayer: PacTree's durable trie from anchors to data nodes. It may lag behind the list of
// data nodes, so its answers are places to begin at; the anchors decide (pactree.h). Source: Kim et
// al., "PACTree", SOSP 2021, section 4; nodes and K1-K4: trie_node.h.
//
// S1  one thread at a time changes the trie, readers take no lock: what they see of a node was
//     whole when it was linked, and its children are single words.
// S2  a node is durable before the word that leads to it; a power cut leaves the trie as it was
//     before a change or after it.
// S3  a node that is replaced or emptied is retired, and freed after a grace period.
// S4  the root is an n256 without a prefix. It is never replaced.
// S5  a path holds bytes that begin the anchor it leads to: all of it at a node's `here`.
// S6  every node but the root leads to something, and the depth is at most the longest key's
// length.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "index/pactree/trie_node.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure::pactree {

class SearchLayer {
 public:
  /// The bytes of a data node's anchor.
  using AnchorOf = std::function<std::string(std::uint64_t node)>;
  /// Receives the data nodes of a walk: offset, the path to it, whether it ends there (`here`).
  using Visit = std::function<Result<void>(std::uint64_t node, std::string_view path, bool ends)>;

  SearchLayer(Pool& pool, Epochs& epochs, std::uint64_t root, AnchorOf anchor_of)
      : pool_(pool), epochs_(epochs), root_(root), anchor_of_(std::move(anchor_of)) {}

  /// Makes an empty trie; its root is published. Errors: out_of_space.
  [[nodiscard]] static Result<std::uint64_t> create_root(Pool& pool);

  /// A data node whose anchor is near `key`, most often the highest not above it; null when the
  /// trie knows none. The caller is pinned. `and_following`: also prefetches the headers of the
  /// data nodes that the last trie node leads to after it.
  [[nodiscard]] std::uint64_t find(std::string_view key, bool and_following = false) const noexcept;

  // The writer (S1), pinned.

  /// Adds a data node below its anchor; nothing when it is there. False: out of space, and nothing
  /// changed. Cost: the new nodes' lines and 1 more, 2 fences.
  [[nodiscard]] bool insert(std::string_view anchor, std::uint64_t data);
  /// Takes it out, if it is there, with what would be left empty. Needs no space. Cost: 1 flushed
  /// line, 1 fence.
  void remove(std::string_view anchor, std::uint64_t data) { take_out(anchor, data, true); }

  /// Checks every node, and visits all data nodes in order. Returns the nodes' offsets. No writer
  /// runs. Errors: corrupt, or what `visit` says.
  [[nodiscard]] Result<std::vector<std::uint64_t>> check(const Visit& visit) const;

  // Recovery, after `check`.

  /// As `remove`; nodes that run empty are left to the sweep.
  void forget(std::string_view anchor, std::uint64_t data) { take_out(anchor, data, false); }
  /// Marks all nodes, which `check` has returned. Errors: corrupt.
  [[nodiscard]] Result<void> mark(std::span<const std::uint64_t> nodes) const;

 private:
  class Draft;
  struct Walk;

  [[nodiscard]] TrieNode* node_at(Child child) const noexcept { return pool_.at<TrieNode>(child); }
  [[nodiscard]] Child last(Child child) const noexcept;
  void prefetch_after(const TrieNode& node, std::uint8_t byte) const noexcept;
  void retire(const TrieNode& node) {
    epochs_.retire(pool_.heap(), pool_.offset_of(&node), node.bytes());
  }
  [[nodiscard]] bool add(TrieNode& node, std::atomic<Child>* link, std::uint8_t byte, Child added);
  [[nodiscard]] bool split_prefix(TrieNode& node, std::atomic<Child>& link, std::size_t common,
                                  std::string_view rest, Child added);
  [[nodiscard]] bool fork(std::atomic<Child>& link, std::size_t level, std::string_view anchor,
                          Child present, Child added);
  void take_out(std::string_view anchor, std::uint64_t data, bool retires);
  [[nodiscard]] Result<void> check_node(const Walk& walk, std::uint64_t offset) const;
  [[nodiscard]] Result<void> walk(Walk& walk, std::uint64_t offset) const;

  Pool& pool_;
  Epochs& epochs_;
  const std::uint64_t root_;
  const AnchorOf anchor_of_;
};

}  // namespace perdure::pactree
