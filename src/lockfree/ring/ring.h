// Ring: a bounded FIFO for any number of producers and consumers (study pmidio, section 6.3), whose
// persistence is a template argument (durability.h). Slots on media as in slots/slot_layout.h; in
// DRAM two rings of slot numbers: `full_`, in the order of the FIFO, and the free ones.
//
//   push   take a free slot; seq = unfinished; store header and payload; fence; put the slot into
//          `full_` (linearization); seq = base + ticket; flush, fence (persistence)
//   pop    take a slot from `full_` (linearization); seq = base + ticket, if the producer has not
//          stored it yet; copy the payload out; mark of the thread = seq; flush, fence
//          (persistence); the slot is free
//   empty  mark of the thread = base + head - 1; flush, fence; nothing where that is durable
//
// R1  a header's seq is finished only after its slot is in `full_`: by the producer or by who pops
//     it, with the same value, by a compare-and-swap from the unfinished seq of this use of the
//     slot. That value is used once: each use has another seq before. So a producer that comes late
//     changes nothing in a slot that is used anew; who pops finishes the seq before the slot is
//     free.
// R2  so a finished header means a push that took effect, and seqs are in the order of `full_`.
// R3  a mark is durable only if all that has a seq up to it is popped, or claimed by pops under way
//     (Q3), which a power cut then completes. An answer "empty" has such a mark: what was popped
//     before it stays popped, also where that pop is not durable itself.
// R4  what is popped before its push is durable may be returned: the mark covers it, whether its
//     header is durable or not. Where the push has a tag, the header becomes durable with the mark.
// R5  after a recovery `full_` holds the live slots in order of their seqs, and base is such that
//     the next ticket has a larger seq than all before. Recovered slots keep their seqs.
//
// A slot is its producer's from `take` to the put, then that of who pops it. No step waits for
// another thread. A thread that stops for ever costs the slot that it has.
//
// Deviations from the paper are listed in design.md.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockfree/base/queue_registry.h"
#include "lockfree/ring/durability.h"
#include "lockfree/ring/free_slots.h"
#include "lockfree/slots/index_ring.h"
#include "lockfree/slots/slot_store.h"

namespace perdure::lockfree {

template <class Durable>
class Ring final : public DurableQueue {
 public:
  static constexpr bool persists = Durable::persists;

  /// Of empty slots, or of those that `found` describes.
  Ring(SlotStore store, const IndexOptions& options, const FoundSlots& found)
      : store_(std::move(store)),
        durable_(made(store_)),
        paths_(made_paths(options)),
        full_(store_.shape().slots),
        free_(store_.shape().slots, persists),
        base_(found.last_seq + 1 - full_.first_ticket() - found.live.size()),
        durable_mark_(found.last_popped) {
    for (const FoundSlots::Live& live : found.live) full_.push(live.slot);
    if constexpr (persists)
      free_.adopt(store_, found);
    else
      for (std::uint32_t slot = 0; slot < store_.shape().slots; ++slot) free_.give_back(slot);
  }

  Outcome push(std::string_view payload) override { return push_tagged(payload, {}); }
  Outcome push(std::string_view payload, PushTag tag) override {
    if constexpr (!persists) return push_tagged(payload, {});
    if (tag.number == 0 || tag.producer >= pm::max_threads) return Outcome::invalid;
    return push_tagged(payload, tag);
  }
  Outcome pop(std::string& payload) override;
  [[nodiscard]] std::uint64_t last_push(std::uint32_t producer) const override {
    return free_.last_push(producer);
  }
  [[nodiscard]] std::uint64_t size() const override { return full_.size(); }
  [[nodiscard]] std::uint64_t capacity() const override { return store_.shape().slots; }
  [[nodiscard]] std::size_t payload_bytes() const override { return store_.shape().payload_bytes; }
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t content_sum() const override {
    if constexpr (persists) return store_.content_sum();
    return size();
  }
  [[nodiscard]] std::uint64_t dram_bytes() const override {
    return store_.dram_bytes() + full_.dram_bytes() + free_.dram_bytes() + sizeof *this;
  }

 private:
  using Made = std::conditional_t<persists, std::optional<Durable>, Volatile>;
  [[nodiscard]] static Made made(const SlotStore& store) {
    if constexpr (persists)
      return Made(std::in_place, store);
    else
      return {};
  }

  struct NoPaths {};
  using Paths = std::conditional_t<persists, PayloadPaths, NoPaths>;
  [[nodiscard]] static Paths made_paths([[maybe_unused]] const IndexOptions& options) {
    if constexpr (persists)
      return Paths(options);
    else
      return {};
  }

  Outcome push_tagged(std::string_view payload, PushTag tag);
  /// Its seq, which is finished when this returns (R1).
  [[nodiscard]] std::uint64_t finish(SlotHeader& header, std::uint64_t ticket) noexcept;
  void make_empty_durable() noexcept;
  [[nodiscard]] static Error corrupt(const std::string& what) {
    return {ErrorCode::corrupt, what, "", "report this: the ring breaks its own invariants"};
  }

  SlotStore store_;
  const Made durable_;
  [[no_unique_address]] const Paths paths_;
  IndexRing full_;
  FreeSlots free_;
  const std::uint64_t base_;  ///< seq of ticket 0, which may be below 0: all sums wrap around
  std::atomic<std::uint64_t> durable_mark_;  ///< the largest mark that an "empty" has found durable
};

template <class Durable>
Outcome Ring<Durable>::push_tagged(std::string_view payload, PushTag tag) {
  if (payload.size() > store_.shape().payload_bytes) return Outcome::invalid;
  const std::uint32_t slot = free_.take(store_);
  if (slot == FreeSlots::none) return Outcome::out_of_space;
  SlotHeader& header = store_.header(slot);
  if constexpr (!persists) {
    header.len = static_cast<std::uint32_t>(payload.size());
    if (!payload.empty())
      payload.copy(reinterpret_cast<char*>(store_.payload(slot, payload.size())), payload.size());
    full_.push(slot);
  } else {
    const std::uint64_t seq = header.seq.load(std::memory_order_relaxed) | unfinished;
    const bool outside = payload.size() > inline_bytes;
    const PayloadPath path = paths_.of(payload.size());
    typename Durable::Push change(*durable_, slot, header, seq);
    if (!change.is_ready()) {
      free_.give_back(slot);
      return Outcome::out_of_space;
    }
    durable_->fill(slot, payload, tag, path);
    change.written(outside, path);
    const std::uint64_t ticket = full_.push(slot);
    std::uint64_t expected = seq;
    header.seq.compare_exchange_strong(expected, base_ + ticket);  // R1
    change.publish(header);
    if (tag.number != 0) free_.pushed(tag.producer, tag.number);
  }
  return Outcome::ok;
}

template <class Durable>
std::uint64_t Ring<Durable>::finish(SlotHeader& header, std::uint64_t ticket) noexcept {
  std::uint64_t seq = header.seq.load(std::memory_order_acquire);
  if ((seq & unfinished) == 0) return seq;
  header.seq.compare_exchange_strong(seq, base_ + ticket);
  return base_ + ticket;
}

template <class Durable>
Outcome Ring<Durable>::pop(std::string& payload) {
  if constexpr (persists) have_mark();
  const IndexRing::Taken taken = full_.pop();
  if (taken.number == IndexRing::none) {
    if constexpr (persists) make_empty_durable();
    return Outcome::not_found;
  }
  SlotHeader& header = store_.header(taken.number);
  payload.assign(reinterpret_cast<const char*>(store_.payload(taken.number, header.len)),
                 header.len);
  if constexpr (!persists) {
    free_.popped(taken.number);
  } else {
    const std::uint64_t seq = finish(header, taken.ticket);
    const std::uint32_t producer = header.producer;
    const std::uint64_t number = header.number;
    const bool is_known = number == 0 || free_.is_durable(producer, number);
    durable_->mark(seq, is_known ? nullptr : &header);  // R4
    free_.popped(taken.number, producer, number);
  }
  return Outcome::ok;
}

template <class Durable>
void Ring<Durable>::make_empty_durable() noexcept {
  // Any head will do for R3; this one was read after the ring was found empty, so it covers all
  // that was pushed and popped before.
  const std::uint64_t up_to = base_ + full_.head() - 1;
  std::uint64_t known = durable_mark_.load(std::memory_order_acquire);
  if (known >= up_to) return;
  if (store_.mark(pm::thread_slot()).seq.load(std::memory_order_relaxed) < up_to)
    durable_->mark(up_to, nullptr);
  // A locked instruction, with which an operation without a fence ends.
  while (known < up_to && !durable_mark_.compare_exchange_weak(known, up_to)) {
  }
}

template <class Durable>
Result<void> Ring<Durable>::check_invariants() const {
  std::vector<bool> seen(store_.shape().slots);
  std::uint64_t count = 0;
  const auto see = [&](std::uint32_t slot) {
    if (slot < seen.size() && !seen[slot]) ++count;
    if (slot < seen.size()) seen[slot] = true;
  };
  std::vector<std::pair<std::uint64_t, std::uint32_t>> full;
  full_.for_each(
      [&](std::uint64_t ticket, std::uint32_t slot) { full.emplace_back(ticket, slot); });
  std::ranges::sort(full);
  for (const auto& [ticket, slot] : full) see(slot);
  if (count != full.size()) return corrupt("Q1: a slot is in the ring twice");
  free_.for_each(see);
  if (count != seen.size())
    return corrupt("F1: " + std::to_string(seen.size() - count) + " slots are nowhere");
  if constexpr (persists) {
    const Result<FoundSlots> found = store_.look();
    if (!found) return found.error();
    if (found->live.size() != full.size())
      return corrupt("R2: " + std::to_string(found->live.size()) + " slots are live, " +
                     std::to_string(full.size()) + " are in the ring");
    for (std::size_t i = 0; i < full.size(); ++i)
      if (found->live[i].slot != full[i].second)
        return corrupt("R2: the slots are not in the order of their seqs");
    for (std::uint32_t producer = 0; producer < pm::max_threads; ++producer)
      if (found->pushed[producer] < last_push(producer))
        return corrupt("M3: the newest push of producer " + std::to_string(producer) + " is lost");
    return store_.check_blocks();
  }
  return {};
}

}  // namespace perdure::lockfree
