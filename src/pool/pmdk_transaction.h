// PmdkTransaction: one libpmemobj transaction on a pool with libpmemobj's heap, begun by the
// constructor and taken back by the destructor unless it was committed.
//
// Every call that finds no room counts as one of the heap's refusals.
//
// T1  a range is stored to only after `snapshot` of it has succeeded.
// T2  blocks from `allocate` and blocks given to `free` change hands at `commit`, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pool/pmdk_heap.h"

namespace perdure {

class PmdkTransaction {
 public:
  explicit PmdkTransaction(PmdkHeap& heap) noexcept;
  ~PmdkTransaction();
  PmdkTransaction(const PmdkTransaction&) = delete;
  PmdkTransaction& operator=(const PmdkTransaction&) = delete;

  /// A block as `Heap::reserve` promises one; it is made durable by `commit`, without being
  /// flushed by the caller. null_offset: out of space.
  [[nodiscard]] std::uint64_t allocate(std::size_t bytes) noexcept;
  /// Keeps what a range of the pool holds, to be put back if the transaction is not committed.
  /// What is stored there is flushed by the caller. False: no room for the log. Cost: the range
  /// copied and flushed, 1 fence.
  [[nodiscard]] bool snapshot(const void* begin, std::size_t bytes) noexcept;
  /// False: no room for the log.
  [[nodiscard]] bool free(std::uint64_t offset, std::size_t bytes) noexcept;
  /// Memory of the pool, outside every block in use, that the log may grow into.
  [[nodiscard]] bool lend_log(void* begin, std::size_t bytes) noexcept;
  void commit() noexcept;

 private:
  PmdkHeap& heap_;
  bool committed_ = false;
  std::int64_t blocks_ = 0;  ///< allocated minus freed
  std::int64_t bytes_ = 0;   ///< of them, by size class
};

}  // namespace perdure
