// TicketRing: a bounded FIFO whose tickets lead to slots: push t and pop t use the slot of place t
// mod slots, as in the ring that study pmidio (section 6.3) publishes. Each waits for the one that
// had the slot before it, so it is not lock-free; design.md says what that breaks.
//
//   push   draw a ticket t; wait until pop t - slots is done; store payload and header; fence;
//          seq = base + t + 1; flush, fence (persistence); the turn of the slot (linearization)
//   pop    draw a ticket t; wait until push t is done; copy the payload out; mark of the thread =
//          the header's seq; flush, fence (persistence); the turn of the slot
//   empty  mark of the thread = base + head, unless that is durable
//
// Media: slots/slot_layout.h. In DRAM a turn for each place, with the slot that is there: 2 t when
// push t may have it, 2 t + 1 when pop t may.
//
// K1  each slot has one place, from the opening to the close. The seqs of the slots whose tickets
//     are in use ascend with the tickets.
// K2  tickets in use are head .. tail, at most `slots` of them; where no operation runs, their
// slots
//     are those that are live.
// K3  a mark is durable only if every ticket whose slot has a seq up to it is drawn by a pop.
// K4  recovery gives the live slots the places 0, 1, ..., in order of their seqs, and the others
//     those that follow; base is such that the next push has the first seq that was never used. So
//     a push that was cut off takes no room, and nothing is written. Recovered slots keep their
//     seqs.
//
// Deviation: tickets are drawn by compare-and-swap and only where there is something to draw,
// because a fetch-and-add on an empty ring leaves a pop that waits for the next push, and the
// interface asks for the answer "empty".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lockfree/base/queue_registry.h"
#include "lockfree/slots/in_slots.h"
#include "lockfree/slots/slot_store.h"

namespace perdure::lockfree {

class TicketRing final : public DurableQueue {
 public:
  [[nodiscard]] static MadeQueue create(const QueuePlace& place);
  [[nodiscard]] static MadeQueue recover(const QueuePlace& place);

  /// Of what `found` describes (K4).
  TicketRing(SlotStore store, const IndexOptions& options, const FoundSlots& found);

  Outcome push(std::string_view payload) override;
  Outcome pop(std::string& payload) override;
  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] std::uint64_t capacity() const override { return slots_; }
  [[nodiscard]] std::size_t payload_bytes() const override { return store_.shape().payload_bytes; }
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t content_sum() const override { return store_.content_sum(); }
  [[nodiscard]] std::uint64_t dram_bytes() const override {
    return store_.dram_bytes() + slots_ * sizeof(Turn) + sizeof *this;
  }

 private:
  struct alignas(64) Turn {
    std::atomic<std::uint64_t> word;
    std::uint64_t slot;  ///< never changed (K1)
  };

  [[nodiscard]] static constexpr std::uint64_t turn_of_push(std::uint64_t ticket) noexcept {
    return 2 * ticket;
  }
  [[nodiscard]] static constexpr std::uint64_t turn_of_pop(std::uint64_t ticket) noexcept {
    return 2 * ticket + 1;
  }
  [[nodiscard]] Turn& turn(std::uint64_t ticket) const noexcept { return turn_[ticket % slots_]; }
  void make_empty_durable() noexcept;

  SlotStore store_;
  const InSlots durable_;
  const std::uint64_t slots_;
  const PayloadPaths paths_;
  std::unique_ptr<Turn[]> turn_;
  const std::uint64_t base_;  ///< ticket t is pushed with seq base + t + 1
  alignas(64) std::atomic<std::uint64_t> head_;
  alignas(64) std::atomic<std::uint64_t> tail_;
  alignas(64) std::atomic<std::uint64_t> durable_mark_;
};

}  // namespace perdure::lockfree
