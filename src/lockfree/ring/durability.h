// How a change of the ring becomes durable: the template argument of Ring. Each has
//   has_logs      its slots come with logs
//   Push          the steps of one push, of a slot that only this thread has:
//     Push(durable, slot, header, unfinished seq)   before the header is changed
//     is_ready()                                    false: no room for it
//     written(outside, path)                        header but for its seq, and payload, are stored
//     publish(header)                               the seq is stored, by whomever
//   mark(seq, header)                               all up to `seq` is popped; the header, unless
//                                                   null, becomes durable with it
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "lockfree/slots/in_slots.h"
#include "lockfree/slots/slot_store.h"
#include "pm/pm.h"
#include "pool/pmdk_transaction.h"

namespace perdure::lockfree {

/// No persistence.
struct Volatile {
  static constexpr bool persists = false;
  static constexpr bool has_logs = false;
};

/// Each change is one line, which takes effect by one word. Cost under ADR: a push 1 flush and 1
/// fence, and a fence for a payload that is not short; a pop 1 and 1. Under eADR: a fence for what
/// is streamed or written back.
class TxFree : public InSlots {
 public:
  static constexpr bool persists = true;
  static constexpr bool has_logs = false;
  using InSlots::InSlots;

  class Push {
   public:
    Push(const TxFree& durable, std::uint32_t, SlotHeader&, std::uint64_t) noexcept
        : durable_(durable) {}
    [[nodiscard]] bool is_ready() const noexcept { return true; }
    void written(bool outside, PayloadPath path) const noexcept {
      durable_.fence_payload(outside, path);
    }
    void publish(SlotHeader& header) const noexcept { durable_.persist_header(header); }

   private:
    const TxFree& durable_;
  };

  // The store need not drain under eADR: the slot is given back by a locked instruction.
  void mark(std::uint64_t seq, const SlotHeader* header) const noexcept {
    persist_mark(seq, header);
  }
};

/// Each change is a transaction of the thread, with an undo log of its own. Cost under ADR: a push
/// 4 flushes and 3 fences, and a fence for a payload that is not short; a pop 3 and 3. Under eADR:
/// a fence, and one for what is streamed or written back.
class Tx : public InSlots {
 public:
  static constexpr bool persists = true;
  static constexpr bool has_logs = true;
  using InSlots::InSlots;

  class Push {
   public:
    Push(const Tx& durable, std::uint32_t slot, SlotHeader& header, std::uint64_t seq) noexcept
        : durable_(durable), log_(durable.store().log(pm::thread_slot())) {
      const std::uint64_t before = header.seq.load(std::memory_order_relaxed);
      std::memcpy(log_.header.data(), &before, sizeof before);
      constexpr std::size_t rest = offsetof(SlotHeader, len);
      std::memcpy(log_.header.data() + rest, reinterpret_cast<const std::byte*>(&header) + rest,
                  sizeof header - rest);
      durable_.begin(log_, UndoLog::What::header, slot, seq, sizeof log_);
    }
    [[nodiscard]] bool is_ready() const noexcept { return true; }
    void written(bool outside, PayloadPath path) const noexcept {
      durable_.fence_payload(outside, path);
    }
    void publish(SlotHeader& header) const noexcept {
      pm::flush(&header, sizeof header);
      durable_.end(log_);
    }

   private:
    const Tx& durable_;
    UndoLog& log_;
  };

  void mark(std::uint64_t seq, const SlotHeader* header) const noexcept {
    const std::size_t thread = pm::thread_slot();
    Mark& mine = store().mark(thread);
    PERDURE_ASSERT(mine.seq.load() < seq);
    UndoLog& log = store().log(thread);
    begin(log, UndoLog::What::mark, thread, mine.seq.load(std::memory_order_relaxed),
          pm::cache_line_bytes);
    mine.seq.store(seq, std::memory_order_release);
    pm::flush(&mine, sizeof mine);
    if (header != nullptr) pm::flush(header, sizeof *header);
    end(log);
  }

 private:
  void begin(UndoLog& log, UndoLog::What what, std::uint64_t slot, std::uint64_t old,
             std::size_t bytes) const noexcept {
    PERDURE_ASSERT(log.what.load() == 0);
    log.slot = slot;
    log.old = old;
    log.what.store(static_cast<std::uint64_t>(what), std::memory_order_release);
    pm::flush(&log, bytes);
    fence_if_flushed();
  }
  void end(UndoLog& log) const noexcept {
    fence_if_flushed();
    log.what.store(0, std::memory_order_release);
    pm::persist(&log, pm::cache_line_bytes);
  }
};

/// The same with a transaction of libpmemobj, in a pool of its heap.
class TxPmdk : public InSlots {
 public:
  static constexpr bool persists = true;
  static constexpr bool has_logs = false;
  explicit TxPmdk(const SlotStore& store) noexcept
      : InSlots(store), heap_(static_cast<PmdkHeap&>(store.pool().heap())) {}

  /// The transaction ends before the slot is in the ring: libpmemobj undoes without asking what has
  /// become of a slot since, so none may be open that others can pop and fill again. The seq, one
  /// word, follows by itself.
  class Push {
   public:
    Push(const TxPmdk& durable, std::uint32_t, SlotHeader& header, std::uint64_t) noexcept
        : durable_(durable), header_(header), transaction_(std::in_place, durable.heap_) {
      is_ready_ = transaction_->snapshot(&header, sizeof header);
    }
    [[nodiscard]] bool is_ready() const noexcept { return is_ready_; }
    void written(bool, PayloadPath path) noexcept {
      pm::flush(&header_, sizeof header_);
      if (path != PayloadPath::cached) pm::fence();
      transaction_->commit();
      transaction_.reset();
    }
    void publish(SlotHeader& header) const noexcept { durable_.persist_header(header); }

   private:
    const TxPmdk& durable_;
    SlotHeader& header_;
    std::optional<PmdkTransaction> transaction_;
    bool is_ready_ = false;
  };

  void mark(std::uint64_t seq, const SlotHeader* header) const noexcept {
    Mark& mine = store().mark(pm::thread_slot());
    PERDURE_ASSERT(mine.seq.load() < seq);
    PmdkTransaction transaction(heap_);
    // Without room for a log the word alone does: it is one.
    const bool logged = transaction.snapshot(&mine.seq, sizeof mine.seq);
    mine.seq.store(seq, std::memory_order_release);
    pm::flush(&mine, sizeof mine);
    if (header != nullptr) pm::flush(header, sizeof *header);
    pm::fence();
    if (logged) transaction.commit();
  }

 private:
  PmdkHeap& heap_;
};

}  // namespace perdure::lockfree
