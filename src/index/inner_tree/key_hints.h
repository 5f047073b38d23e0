// KeyHints: for each of many equal parts of the keys' range a node above the leaves that was met
// there, so that a search begins at that node and not at the root. In DRAM.
//
// H1  an entry is null, or the address of a block that has been a node of this tree. It may be free
//     by now, or be another node: whoever follows it is pinned, and believes it only as
//     `FrameLayout::between` says.
// H2  of clustered keys most entries are of no use; then searches begin at the root, as without.
//
// There is no entry to maintain when nodes split or merge: a hint that has become wrong is replaced
// by a search that found it so.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "core/rng.h"
#include "index/inner_tree/inner_node.h"
#include "index/inner_tree/node_arena.h"
#include "pool/epoch.h"

namespace perdure {

class KeyHints {
 public:
  KeyHints() = default;
  KeyHints(const KeyHints&) = delete;
  KeyHints& operator=(const KeyHints&) = delete;

  /// Null: none. The caller is pinned, here and below.
  [[nodiscard, gnu::always_inline]] InnerNode* find(std::uint64_t key) const noexcept {
    const Table* const table = table_.load(std::memory_order_acquire);
    return table == nullptr ? nullptr : table->entry(key).load(std::memory_order_acquire);
  }
  /// A search that began at the root found the key below `node`.
  void note(std::uint64_t key, const InnerNode* node) noexcept {
    Table* const table = table_.load(std::memory_order_acquire);
    if (table == nullptr) return;
    std::atomic<InnerNode*>& entry = table->entry(key);
    const InnerNode* const present = entry.load(std::memory_order_relaxed);
    if (present == node) return;
    // Two nodes of one part take turns, but seldom: other threads read the line.
    constexpr std::uint64_t seldom = 16;
    if (present == nullptr || !pm::VersionLock::is_free(present->lock.peek()) ||
        mix64(key) % seldom == 0)
      entry.store(const_cast<InnerNode*>(node), std::memory_order_release);
  }

  /// Whether there are too few parts for so many nodes above the leaves.
  [[nodiscard]] bool is_small_for(std::size_t nodes) const noexcept {
    const Table* const table = table_.load(std::memory_order_acquire);
    return table == nullptr ? nodes >= least_nodes
                            : nodes > table->parts() / 4 && table->parts() < most_parts;
  }
  /// Begins anew, without any hint, for so many nodes over keys that lie between these two, most of
  /// them at least. One thread at a time.
  void renew(std::uint64_t lowest, std::uint64_t highest, std::size_t nodes, NodeArena& arena,
             Epochs& epochs) {
    const unsigned bits = std::min(static_cast<unsigned>(std::bit_width(8 * nodes - 1)), most_bits);
    void* const block = arena.allocate(Table::bytes(bits));
    drop(arena, epochs);
    table_.store(new (block) Table(lowest, highest, bits), std::memory_order_release);
  }
  /// Back to none.
  void drop(NodeArena& arena, Epochs& epochs) noexcept {
    Table* const table = table_.exchange(nullptr, std::memory_order_acq_rel);
    if (table == nullptr) return;
    epochs.retire(reinterpret_cast<std::uint64_t>(table), Table::bytes(table->bits),
                  NodeArena::destroy, &arena);
  }

 private:
  static constexpr std::size_t least_nodes = 16;
  static constexpr unsigned most_bits = 17;
  static constexpr std::size_t most_parts = std::size_t{1} << most_bits;

  /// Entries follow.
  struct alignas(pm::cache_line_bytes) Table {
    std::uint64_t base;
    unsigned shift;  ///< of a key's distance from the base; beyond the last part it lies in that
    unsigned bits;

    Table(std::uint64_t lowest, std::uint64_t highest, unsigned part_bits) noexcept
        : base(lowest), bits(part_bits) {
      const auto range = static_cast<unsigned>(std::bit_width(highest - lowest));
      shift = range > bits ? range - bits : 0;
      for (std::size_t i = 0; i < parts(); ++i)
        new (entries() + i) std::atomic<InnerNode*>{nullptr};
    }
    [[nodiscard]] static std::size_t bytes(unsigned bits) noexcept {
      return sizeof(Table) + (sizeof(std::atomic<InnerNode*>) << bits);
    }
    [[nodiscard]] std::size_t parts() const noexcept { return std::size_t{1} << bits; }
    [[nodiscard]] std::atomic<InnerNode*>* entries() const noexcept {
      return reinterpret_cast<std::atomic<InnerNode*>*>(const_cast<Table*>(this) + 1);
    }
    [[nodiscard, gnu::always_inline]] std::atomic<InnerNode*>& entry(
        std::uint64_t key) const noexcept {
      const std::uint64_t part = (key - base) >> shift;
      return entries()[std::min(part, parts() - 1)];
    }
  };

  std::atomic<Table*> table_{nullptr};
};

}  // namespace perdure
