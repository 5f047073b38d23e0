// PmdkHeap: libpmemobj's allocator under the common interface.
//
// Each size class of ours is an allocation class of libpmemobj without object headers, so that
// blocks lie side by side, aligned as `block_alignment` promises. Classes are volatile in
// libpmemobj; they are registered at every open, always alike, or it would not recognise the runs
// of blocks that earlier sessions made.
//
// D1  a published block is allocated durably; blocks and linking word change in one redo log.
// D2  after recovery the allocated objects are exactly the marked blocks: `sweep` frees the others,
//     and a mark without an object is corruption.
#pragma once

#include <libpmemobj.h>

#include <array>
#include <atomic>
#include <memory>

#include "pool/heap.h"
#include "pool/live_count.h"
#include "pool/mapping.h"

namespace perdure {

class PmdkHeap final : public Heap {
 public:
  /// `objects` stays open at least as long. Errors: failed (no room for the allocation classes).
  [[nodiscard]] static Result<std::unique_ptr<PmdkHeap>> attach(PMEMobjpool* objects,
                                                                std::uint64_t heap_offset,
                                                                std::uint64_t pool_bytes);

  [[nodiscard]] Reservation reserve(std::size_t bytes) noexcept override;
  void publish(std::span<Reservation> blocks, std::atomic<std::uint64_t>* word,
               std::uint64_t value) noexcept override;
  void cancel(Reservation& block) noexcept override;
  void free(std::uint64_t offset, std::size_t bytes) noexcept override;
  [[nodiscard]] bool mark(std::uint64_t offset, std::size_t bytes) noexcept override;
  [[nodiscard]] bool is_marked(std::uint64_t offset) const noexcept override;
  Result<std::uint64_t> sweep() override;
  /// By D2 every mark is an object, so equal numbers mean that all objects are marked; positions
  /// are not needed.
  [[nodiscard]] std::optional<Census> marked() const override;
  [[nodiscard]] std::optional<Census> allocated() override;
  [[nodiscard]] HeapUsage usage() const noexcept override;
  [[nodiscard]] std::uint64_t capacity_bytes() const noexcept override {
    return pool_bytes_ - heap_offset_;
  }
  [[nodiscard]] const char* name() const noexcept override { return "pmdk"; }

  /// The pool's number in libpmemobj's object ids.
  [[nodiscard]] std::uint64_t pool_id() const noexcept { return pool_id_; }
  [[nodiscard]] PMEMobjpool* objects() const noexcept { return objects_; }

 private:
  friend class PmdkTransaction;

  PmdkHeap(PMEMobjpool* objects, std::uint64_t heap_offset, std::uint64_t pool_bytes);
  Result<void> register_classes();
  void count(std::int64_t blocks, std::size_t bytes) noexcept;
  [[nodiscard]] std::atomic_ref<std::uint8_t> mark_of(std::uint64_t offset) const noexcept;
  /// From any arena but the thread's own, which has no such block.
  [[nodiscard]] PMEMoid reserve_of_others(Reservation& block, std::size_t bytes,
                                          unsigned size_class) noexcept;
  [[nodiscard]] PMEMoid object_at(std::uint64_t offset) const noexcept;

  PMEMobjpool* objects_;
  std::uint64_t pool_id_;
  std::uint64_t heap_offset_;
  std::uint64_t pool_bytes_;
  std::array<std::uint64_t, size_classes::count> class_flag_{};
  LiveCount live_;
  alignas(64) std::atomic<std::uint64_t> frees_{0};
  /// By size class: `frees_` + 1 when no arena had a block.
  std::array<std::atomic<std::uint64_t>, size_classes::count> in_vain_at_{};

  // Until `sweep`: one byte per 16 of the pool, the size class + 1 of the marked block there.
  Mapping marks_;
  std::atomic<std::uint64_t> marked_blocks_{0};
  std::atomic<std::uint64_t> marked_bytes_{0};
  std::atomic<bool> swept_{false};
};

}  // namespace perdure
