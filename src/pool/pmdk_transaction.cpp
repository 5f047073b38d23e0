#include "pool/pmdk_transaction.h"

#include <cerrno>

#include "core/assert.h"

namespace perdure {

PmdkTransaction::PmdkTransaction(PmdkHeap& heap) noexcept : heap_(heap) {
  [[maybe_unused]] const int failure = pmemobj_tx_begin(heap.objects_, nullptr, TX_PARAM_NONE);
  PERDURE_ASSERT(failure == 0);
}

PmdkTransaction::~PmdkTransaction() {
  if (!committed_ && pmemobj_tx_stage() == TX_STAGE_WORK) pmemobj_tx_abort(ECANCELED);
  pmemobj_tx_end();
}

std::uint64_t PmdkTransaction::allocate(std::size_t bytes) noexcept {
  const std::uint64_t flags = heap_.class_flag_[size_classes::class_of(bytes)];
  const PMEMoid object = pmemobj_tx_xalloc(bytes, 0, flags | POBJ_XALLOC_NO_ABORT);
  if (object.off == 0) return heap_.refuse().offset;
  ++blocks_;
  bytes_ += static_cast<std::int64_t>(Heap::block_bytes(bytes));
  return object.off;
}

bool PmdkTransaction::snapshot(const void* begin, std::size_t bytes) noexcept {
  return pmemobj_tx_xadd_range_direct(begin, bytes, POBJ_XADD_NO_ABORT | POBJ_XADD_NO_FLUSH) == 0;
}

bool PmdkTransaction::free(std::uint64_t offset, std::size_t bytes) noexcept {
  if (pmemobj_tx_xfree(heap_.object_at(offset), POBJ_XFREE_NO_ABORT) != 0) return false;
  --blocks_;
  bytes_ -= static_cast<std::int64_t>(Heap::block_bytes(bytes));
  return true;
}

bool PmdkTransaction::lend_log(void* begin, std::size_t bytes) noexcept {
  return pmemobj_tx_xlog_append_buffer(TX_LOG_TYPE_SNAPSHOT, begin, bytes,
                                       POBJ_XLOG_APPEND_BUFFER_NO_ABORT) == 0;
}

void PmdkTransaction::commit() noexcept {
  pmemobj_tx_commit();
  committed_ = true;
  if (blocks_ != 0 || bytes_ != 0) heap_.live_.add_bytes(blocks_, bytes_);
}

}  // namespace perdure
