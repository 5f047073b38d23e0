// OptUnlinkedQ: the durable queue of Sela and Petrank ("Durable Queues: The Second Amendment", SPAA
// 2021): a Michael-Scott queue in DRAM whose links are never made durable. A node on media says its
// place in the order, and a mark for each thread up to where it has popped; so a push fences once,
// a pop once, and neither reads a line that was flushed.
//
// Media: slots/slot_layout.h; a slot is a node's persistent half, and its seq is the paper's index
// and its "linked" in one word. In DRAM, for each slot, the other half:
//   Node, one line   | next | len | seq | short payload 40 |
//
// U1  `head_` leads to a node that is popped (or to one that never held a payload), and from there
//     the links lead to what is in the queue, in the order of their seqs, up to the last node;
//     `tail_` is the last node or one before it.
// U2  a node's seq on media is finished only after the node is linked.
// U3  a mark is durable only if all up to its seq is popped or claimed by pops under way. An answer
//     "empty" has such a mark.
// U4  a node is retired by the pop that moves `head_` past it, after the mark that covers it is
//     durable, and used again when no thread can reach it (memory/reclaimer.h): so the push that
//     has linked it may still store its seq.
//
// Deviations: payloads of any length, long ones in slots; a fixed number of slots in place of a
// growing allocator, so it can be full; full may also be said while an operation of another thread
// is under way that has begun before slots were retired.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockfree/base/queue_registry.h"
#include "lockfree/memory/reclaimer.h"
#include "lockfree/slots/in_slots.h"
#include "lockfree/slots/slot_store.h"

namespace perdure::lockfree {

class OptUnlinkedQ final : public DurableQueue {
 public:
  [[nodiscard]] static MadeQueue create(const QueuePlace& place);
  [[nodiscard]] static MadeQueue recover(const QueuePlace& place);

  /// At least one slot of `found` is dead.
  OptUnlinkedQ(SlotStore store, const IndexOptions& options, const FoundSlots& found);

  Outcome push(std::string_view payload) override;
  Outcome pop(std::string& payload) override;
  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] std::uint64_t capacity() const override { return store_.shape().slots - 1; }
  [[nodiscard]] std::size_t payload_bytes() const override { return store_.shape().payload_bytes; }
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t content_sum() const override { return store_.content_sum(); }
  [[nodiscard]] std::uint64_t dram_bytes() const override;

 private:
  static constexpr std::uint32_t none = no_node;
  struct alignas(64) Node {
    std::atomic<std::uint32_t> next{none};
    std::uint32_t len = 0;
    std::uint64_t seq = 0;
    std::array<char, inline_bytes> short_payload{};
  };
  static_assert(sizeof(Node) == 64);

  [[nodiscard]] std::uint32_t take_slot() noexcept;
  void fill(std::uint32_t slot, std::string_view payload) noexcept;
  /// Appends the node; returns the one before it.
  std::uint32_t link(std::uint32_t slot) noexcept;
  void persist_mark(std::uint64_t seq) noexcept;
  void make_empty_durable(std::uint64_t seq) noexcept;

  SlotStore store_;
  const InSlots durable_;
  const PayloadPaths paths_;
  std::unique_ptr<Node[]> node_;
  FreeNodes free_;  ///< slots
  Reclaimer reclaimer_{free_};
  alignas(64) std::atomic<std::uint32_t> head_;
  alignas(64) std::atomic<std::uint32_t> tail_;
  alignas(64) std::atomic<std::uint64_t> durable_mark_;
};

}  // namespace perdure::lockfree
