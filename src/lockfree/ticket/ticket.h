// TicketRing: a bounded FIFO whose tickets lead to slots: push t and pop t use slot t mod slots, as
// in the ring that study pmidio (section 6.3) publishes. Each waits for the one that had the slot
// before it, so it is not lock-free; design.md says what that breaks.
//
//   push   draw a ticket t; wait until pop t - slots is done; store payload and header; fence;
//          seq = t + 1; flush, fence (persistence); the turn of the slot (linearization)
//   pop    draw a ticket t; wait until push t is done; copy the payload out; mark of the thread =
//          t + 1; flush, fence (persistence); the turn of the slot
//   empty  mark of the thread = head, unless that is durable
//
// Media: slots/slot_layout.h. In DRAM a turn for each slot: 2 t when push t may have it, 2 t + 1
// when pop t may, and `hole` with 2 t + 1 where recovery has found that push t is missing.
//
// K1  the header with seq s is in slot (s - 1) mod slots.
// K2  tickets in use are head .. tail, at most `slots` of them; so are the seqs beyond the marks.
// K3  a mark is durable only if every ticket below is drawn by a pop.
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

  /// Of what `found` describes, which keeps K1 and K2.
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
  };
  static constexpr std::uint64_t hole = std::uint64_t{1} << 63;

  [[nodiscard]] static constexpr std::uint64_t turn_of_push(std::uint64_t ticket) noexcept {
    return 2 * ticket;
  }
  [[nodiscard]] static constexpr std::uint64_t turn_of_pop(std::uint64_t ticket) noexcept {
    return 2 * ticket + 1;
  }
  [[nodiscard]] std::atomic<std::uint64_t>& turn(std::uint64_t ticket) const noexcept {
    return turn_[ticket % slots_].word;
  }
  void make_empty_durable() noexcept;

  SlotStore store_;
  const InSlots durable_;
  const std::uint64_t slots_;
  const bool streams_;
  std::unique_ptr<Turn[]> turn_;
  alignas(64) std::atomic<std::uint64_t> head_;
  alignas(64) std::atomic<std::uint64_t> tail_;
  alignas(64) std::atomic<std::uint64_t> durable_mark_;
};

}  // namespace perdure::lockfree
