// PartsHeap: one heap over the parts of a pool, a slab heap for each.
//
// A block comes from the part nearest to the calling thread: the one on its NUMA node, or, where a
// node has several, the one that its slot selects. When that part is full, it comes from another.
// A thread that fills a pool alone takes the parts in turn (`PartsInTurn`).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "pm/pm.h"
#include "pool/options.h"
#include "pool/slab_heap.h"

namespace perdure {

class PartsHeap final : public Heap {
 public:
  /// For `parts` parts whose blocks lie in [first_offset, end_offset) of each; part n begins at
  /// n << part_shift and was dealt to nodes[n % nodes.size()].
  PartsHeap(unsigned parts, unsigned part_shift, std::uint64_t first_offset,
            std::uint64_t end_offset, std::vector<unsigned> nodes);

  [[nodiscard]] Reservation reserve(std::size_t bytes) noexcept override;
  void publish(std::span<Reservation> blocks, std::atomic<std::uint64_t>* word,
               std::uint64_t value) noexcept override;
  void cancel(Reservation& block) noexcept override;
  void free(std::uint64_t offset, std::size_t bytes) noexcept override;
  [[nodiscard]] bool mark(std::uint64_t offset, std::size_t bytes) noexcept override;
  [[nodiscard]] bool is_marked(std::uint64_t offset) const noexcept override;
  Result<std::uint64_t> sweep() override;
  [[nodiscard]] std::optional<Census> marked() const override;
  [[nodiscard]] std::optional<Census> allocated() override;
  [[nodiscard]] Extent block_at(std::uint64_t offset) const noexcept override;
  [[nodiscard]] bool is_live(std::uint64_t offset) const noexcept override;
  [[nodiscard]] std::uint64_t room_for(std::size_t bytes) const noexcept override;
  [[nodiscard]] HeapUsage usage() const noexcept override;
  [[nodiscard]] std::uint64_t capacity_bytes() const noexcept override {
    return part_.size() * part_.front()->capacity_bytes();
  }
  [[nodiscard]] const char* name() const noexcept override { return part_.front()->name(); }

 private:
  friend class PartsInTurn;
  friend class InPart;
  static constexpr std::uint8_t nearest = 0xff;
  static constexpr std::uint8_t only = 0x80;  ///< this part and no other
  static_assert(PoolLimits::max_parts <= only);

  /// The part that serves the calling thread.
  [[nodiscard]] std::size_t home() const noexcept;
  /// The heap of the part that an offset lies in; null outside all parts.
  [[nodiscard]] SlabHeap* heap_of(std::uint64_t offset) const noexcept {
    const std::uint64_t part = offset >> part_shift_;
    return part < part_.size() ? part_[part].get() : nullptr;
  }
  [[nodiscard]] std::uint64_t inside(std::uint64_t offset) const noexcept {
    return offset & ((std::uint64_t{1} << part_shift_) - 1);
  }

  const unsigned part_shift_;
  const std::vector<unsigned> nodes_;
  std::vector<std::unique_ptr<SlabHeap>> part_;
  /// By slot: a part, with or without `only`, or nearest.
  std::array<std::atomic<std::uint8_t>, pm::max_threads> chosen_;
};

/// While one lives, the blocks of its thread come from one part after the other: from the next
/// since `next` was called. Nothing where a pool has no parts.
class PartsInTurn {
 public:
  explicit PartsInTurn(Heap& heap) noexcept : heap_(dynamic_cast<PartsHeap*>(&heap)) {}
  ~PartsInTurn() { choose(PartsHeap::nearest); }
  PartsInTurn(const PartsInTurn&) = delete;
  PartsInTurn& operator=(const PartsInTurn&) = delete;

  void next() noexcept {
    if (heap_ != nullptr) choose(turn_++ % heap_->part_.size());
  }

 private:
  void choose(std::size_t part) noexcept {
    if (heap_ == nullptr) return;
    heap_->chosen_[pm::thread_slot()].store(static_cast<std::uint8_t>(part),
                                            std::memory_order_relaxed);
  }

  PartsHeap* const heap_;
  std::size_t turn_ = 0;
};

/// While one lives, the blocks of its thread come from one part of a pool; a full one refuses.
/// Nothing where a pool has no such part.
class InPart {
 public:
  InPart(PartsHeap* heap, unsigned part) noexcept
      : heap_(heap != nullptr && part < heap->part_.size() ? heap : nullptr) {
    if (heap_ == nullptr) return;
    slot_ = pm::thread_slot();
    before_ = heap_->chosen_[slot_].exchange(static_cast<std::uint8_t>(part | PartsHeap::only),
                                             std::memory_order_relaxed);
  }
  ~InPart() {
    if (heap_ != nullptr) heap_->chosen_[slot_].store(before_, std::memory_order_relaxed);
  }
  InPart(const InPart&) = delete;
  InPart& operator=(const InPart&) = delete;

 private:
  PartsHeap* const heap_;
  std::size_t slot_ = 0;
  std::uint8_t before_ = 0;
};

}  // namespace perdure
