// NodeSlab: the fixed nodes of a list, in a pool or in DRAM, with their free bitmap and reclaimer.
//
// On media a top block leads to chunks, which are full of nodes:
//   byte 0       8             16        24     32        40         48       64      72
//        | nodes | chunk_nodes | chunks  | logs | loading | checksum |        | head  |
//   byte 128: chunk[chunks], offsets of the chunks
//   chunk | node[0] 32 B | padding | node[1] | ...
// The stride, 32 or 64 bytes from one node to the next, is in the list's root, and is the caller's.
//
// N1  `nodes`, `chunk_nodes`, `chunks`, `logs` and the chunks' offsets never change, and
//     `checksum` is theirs.
// N2  every node was written before the top block became reachable: as a free node of its list.
// N3  chunks are allocated at creation, so no operation asks the heap, which has locks. A slab that
//     is full refuses, whatever else the pool may have.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/result.h"
#include "index/media_layout.h"
#include "lockfree/memory/free_nodes.h"
#include "lockfree/memory/reclaimer.h"
#include "pm/pm.h"
#include "pool/mapping.h"
#include "pool/pool.h"

namespace perdure::lockfree {

/// Half a line, so that no node straddles two. What `meta` means is the list's own.
struct alignas(32) Node {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint64_t> next;  ///< offset of a node, 0: the last; low bits: the list's own
  std::atomic<std::uint64_t> meta;
};
static_assert(sizeof(Node) == 32 && pm::cache_line_bytes % sizeof(Node) == 0);

/// What a node's words are while nobody has used it.
struct FreeNode {
  std::uint64_t next = 0;
  std::uint64_t meta = 0;
};

struct alignas(64) SlabTop {
  std::uint64_t nodes;
  std::uint64_t chunk_nodes;
  std::uint64_t chunks;
  std::uint64_t logs;  ///< offset of the list's per-thread blocks, or 0
  std::atomic<std::uint64_t> loading;
  std::uint64_t checksum;
  alignas(
      64) std::atomic<std::uint64_t> head;  ///< offset of the first node, where that is on media
};
static_assert(sizeof(SlabTop) == 128 && offsetof(SlabTop, head) == 64);

/// What a slab is made with.
struct SlabPlan {
  std::uint64_t nodes = 0;      ///< at most: fewer where that is over three quarters of the room
  std::uint64_t log_bytes = 0;  ///< per-thread blocks, zeroed; 0: none
  FreeNode free{};
  std::uint64_t stride = sizeof(Node);  ///< or twice that
  bool arenas = false;                  ///< F3; may be another at each opening
};

class NodeSlab {
 public:
  static constexpr std::uint64_t least_nodes = 64;
  static constexpr std::uint64_t most_nodes = std::uint64_t{1} << 26;

  /// In DRAM. Errors: out_of_space.
  [[nodiscard]] static Result<std::unique_ptr<NodeSlab>> in_dram(const SlabPlan& plan,
                                                                 bool huge_pages);
  /// In the pool: durable, and reachable by nobody yet; nothing is left behind on error. Errors:
  /// out_of_space.
  [[nodiscard]] static Result<std::unique_ptr<NodeSlab>> create(Pool& pool, const SlabPlan& plan);
  /// Checks what the top block says and marks its blocks in the heap. Errors: corrupt.
  [[nodiscard]] static Result<std::unique_ptr<NodeSlab>> recover(Pool& pool, std::uint64_t top,
                                                                 const SlabPlan& plan);
  /// Gives the blocks back to the heap: a creation that was given up.
  void destroy();

  [[nodiscard]] Node& at(std::uint64_t offset) const noexcept {
    return *reinterpret_cast<Node*>(reinterpret_cast<std::uintptr_t>(base_) + offset);
  }
  [[nodiscard]] std::uint64_t offset_of(std::uint32_t node) const noexcept {
    return chunk_[node >> chunk_shift_] + ((node & (chunk_nodes() - 1)) << stride_shift_);
  }
  /// The node at this offset, or `no_node` where none begins.
  [[nodiscard]] std::uint32_t node_at(std::uint64_t offset) const noexcept;

  /// A node for this thread, or `no_node`. The caller is pinned.
  [[nodiscard]] std::uint32_t take(const Reclaimer::Guard& guard) noexcept {
    return free_->take(guard.slot());
  }
  /// Back at once: nobody else has seen it.
  void give(std::uint32_t node) noexcept { free_->give(node); }
  void retire(const Reclaimer::Guard& guard, std::uint64_t offset) noexcept {
    reclaimer_->retire(guard, node_at(offset));
  }
  [[nodiscard]] Reclaimer& reclaimer() noexcept { return *reclaimer_; }
  [[nodiscard]] FreeNodes& free_nodes() noexcept { return *free_; }
  /// Nobody takes nodes meanwhile.
  void spread() noexcept { free_->spread(arenas_); }
  /// Empty, or why nodes are missing or counted twice where `reachable` are in use.
  [[nodiscard]] Result<void> check_count(std::uint64_t reachable) const;

  [[nodiscard]] std::uint32_t nodes() const noexcept { return nodes_; }
  /// Bytes from one node to the next, as a power of two.
  [[nodiscard]] unsigned stride_shift() const noexcept { return stride_shift_; }
  [[nodiscard]] SlabTop& top() const noexcept { return *top_; }
  [[nodiscard]] std::uint64_t top_offset() const noexcept { return top_offset_; }
  /// Blocks of the heap that it has.
  [[nodiscard]] std::uint64_t blocks() const noexcept {
    return chunk_.size() + 1 + (top_->logs != 0 ? 1 : 0);
  }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept;
  /// For counterexamples.
  [[nodiscard]] static std::vector<MediaStruct> media(std::uint64_t nodes, std::uint64_t stride,
                                                      std::vector<MediaField> node_fields);

 private:
  explicit NodeSlab(const SlabPlan& plan) noexcept;
  [[nodiscard]] std::uint64_t chunk_nodes() const noexcept {
    return std::uint64_t{1} << chunk_shift_;
  }
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept {
    return chunk_nodes() << stride_shift_;
  }
  [[nodiscard]] bool reserve(Pool& pool, std::vector<Reservation>& blocks, const SlabPlan& plan,
                             std::uint64_t chunks);
  void write(const SlabPlan& plan);
  void begin(std::uint64_t nodes);

  std::byte* base_ = nullptr;
  std::vector<std::uint64_t> chunk_;  ///< offsets
  unsigned chunk_shift_ = 0;          ///< 1 << chunk_shift_ nodes in a chunk
  unsigned stride_shift_;             ///< and 1 << stride_shift_ bytes for each
  bool arenas_;
  std::uint32_t nodes_ = 0;
  SlabTop* top_ = nullptr;
  std::uint64_t top_offset_ = 0;
  Pool* pool_ = nullptr;
  std::uint64_t log_bytes_;
  Mapping memory_;          ///< in DRAM
  SlabTop volatile_top_{};  ///< in DRAM
  std::unique_ptr<FreeNodes> free_;
  std::unique_ptr<Reclaimer> reclaimer_;
};

}  // namespace perdure::lockfree
