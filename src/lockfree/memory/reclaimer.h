// Reclaimer: nodes are free again only when no thread can still read them, and no thread ever waits
// for another one. Epoch-based (Fraser 2004), as Epochs (pool/epoch.h), which waits for threads in
// full pools and has locks; this one has neither, so a thread that has stopped for ever keeps nodes
// from being reused, and nothing else.
//
// Q1  a thread announces the global epoch by an exchange before its first load of shared links, and
//     the global epoch advances only when every announced epoch is the global one. So it gets at
//     most one ahead of what it was at the exchange, also where the announced one was old by then.
// Q2  a node is retired in the epoch that is the global one after its unlink, and freed three later
//     or more. Who can still hold it made its exchange before the unlink, so the global epoch is at
//     most one later until that thread unpins.
// Q3  a node is retired when it is unlinked, and the unlink was flushed where it lies on media. The
//     locked instruction that retires it is the fence after that flush.
// Q4  what a slot retired in epoch e is a list in `list[e % 4]`, one word {e, first}. Its owner
//     pushes; whoever changes the word to {e, none} by a compare-and-swap owns the nodes, so any
//     thread may free what another one has left, also one that has ended. The word cannot be the
//     same again with other nodes: a node of it is retired again in a later epoch only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockfree/memory/free_nodes.h"
#include "pm/thread.h"

namespace perdure::lockfree {

class Reclaimer {
 public:
  explicit Reclaimer(FreeNodes& free);

  /// Pins this thread for its lifetime. Not reentrant. Cost: one locked instruction.
  class Guard {
   public:
    explicit Guard(Reclaimer& reclaimer) noexcept
        : slot_(pm::thread_slot()), announced_(reclaimer.slot_[slot_].epoch) {
      std::uint32_t highest = reclaimer.slots_.load(std::memory_order_relaxed);
      while (highest <= slot_ && !reclaimer.slots_.compare_exchange_weak(
                                     highest, static_cast<std::uint32_t>(slot_) + 1)) {
      }
      announced_.exchange(reclaimer.global_.load(std::memory_order_acquire));
    }
    ~Guard() { announced_.store(idle, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    [[nodiscard]] std::size_t slot() const noexcept { return slot_; }

   private:
    std::size_t slot_;
    std::atomic<std::uint64_t>& announced_;
  };

  /// Frees `node` when no thread can read it any more. The caller is pinned and has unlinked it.
  void retire(const Guard& guard, std::uint32_t node) noexcept;
  /// Frees what may be freed now, of all threads. True: something was. The caller is not pinned.
  bool collect() noexcept;
  /// True where nodes wait, so that `collect` may find some later.
  [[nodiscard]] bool holds_any() const noexcept;
  /// Nodes that wait. Exact when no operation runs.
  [[nodiscard]] std::uint64_t retired() const noexcept;
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return std::uint64_t{nodes_} * sizeof(std::uint32_t) + sizeof *this;
  }

 private:
  static constexpr std::uint64_t idle = 0;
  static constexpr std::uint64_t first_epoch = 4;
  static constexpr std::uint64_t grace_epochs = 3;  ///< Q2
  static constexpr unsigned retired_between_advances = 32;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> epoch{idle};
    std::array<std::atomic<std::uint64_t>, 4> list{};  ///< Q4: epoch << 32 | first node + 1
    std::uint32_t retired = 0;                         ///< only its thread's
  };

  static constexpr std::uint64_t word_of(std::uint64_t epoch, std::uint32_t first) noexcept {
    return epoch << 32 | (first + 1);  // no_node + 1 is 0
  }
  static constexpr std::uint32_t first_of(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word) - 1;
  }

  void try_advance() noexcept;
  /// Frees the list unless it is too young or another thread takes it.
  bool free_list(std::atomic<std::uint64_t>& list, std::uint64_t global) noexcept;

  FreeNodes& free_;
  std::uint32_t nodes_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> next_;  ///< by node: the one retired before it
  alignas(64) std::atomic<std::uint64_t> global_{first_epoch};
  std::atomic<std::uint32_t> slots_{0};  ///< beyond every slot that was ever pinned
  std::array<Slot, pm::max_threads> slot_;
};

}  // namespace perdure::lockfree
