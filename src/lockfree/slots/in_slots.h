// InSlots: the steps that make headers, payloads and marks durable, for the queues that lie in
// slots.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/assert.h"
#include "lockfree/slots/slot_store.h"
#include "pm/pm.h"

namespace perdure::lockfree {

/// Before a pop draws its ticket: from here on the thread's mark is its own. Were its number, and
/// with it the mark, taken after the ticket, then a thread with that number could have popped what
/// is behind the ticket meanwhile, and have ended; and the mark would go back over that.
inline void have_mark() noexcept { static_cast<void>(pm::thread_slot()); }

/// What every queue of slots does to make them durable.
class InSlots {
 public:
  explicit InSlots(const SlotStore& store) noexcept
      : store_(store), flushes_(pm::persist_mode().durability == pm::Durability::adr) {}

  [[nodiscard]] const SlotStore& store() const noexcept { return store_; }
  [[nodiscard]] bool flushes() const noexcept { return flushes_; }
  /// Of an order that visible stores have anyway where visible means durable.
  void fence_if_flushed() const noexcept {
    if (flushes_) pm::fence();
  }
  /// Streamed bytes may become visible after later stores, in any mode, unless a fence follows; and
  /// who writes lines back waits for them.
  void fence_payload(bool outside, PayloadPath path) const noexcept {
    if (path != PayloadPath::cached || (outside && flushes_)) pm::fence();
  }
  /// All of a slot that the caller has to itself, but for the seq, which is unfinished (M1).
  void fill(std::uint64_t slot, std::string_view payload, PushTag tag,
            PayloadPath path) const noexcept {
    SlotHeader& header = store_.header(slot);
    header.seq.store(header.seq.load(std::memory_order_relaxed) | unfinished,
                     std::memory_order_relaxed);
    // The compiler must not move the stores below before the one above: a line keeps their order.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    header.len = static_cast<std::uint32_t>(payload.size());
    header.producer = tag.producer;
    header.number = tag.number;
    if (payload.size() > inline_bytes)
      write_payload(store_.payload(slot, payload.size()), payload, path);
    else if (!payload.empty())
      std::memcpy(header.short_payload.data(), payload.data(), payload.size());
  }
  /// Its last store was a locked instruction, so nothing is left to do under eADR.
  void persist_header(const SlotHeader& header) const noexcept {
    if (flushes_) pm::persist(&header, sizeof header);
  }
  /// Stores the thread's mark: all up to `seq` is popped. The header, unless null, becomes durable
  /// with it. Under eADR the caller's next store must be a locked instruction.
  void persist_mark(std::uint64_t seq, const SlotHeader* header = nullptr) const noexcept {
    Mark& mine = store_.mark(pm::thread_slot());
    PERDURE_ASSERT(mine.seq.load() < seq);
    mine.seq.store(seq, std::memory_order_release);
    if (!flushes_) return;
    pm::flush(&mine, sizeof mine);
    if (header != nullptr) pm::flush(header, sizeof *header);
    pm::fence();
  }

 private:
  const SlotStore& store_;
  const bool flushes_;
};

}  // namespace perdure::lockfree
