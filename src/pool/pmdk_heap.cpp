#include "pool/pmdk_heap.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/assert.h"

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_release(void* address);
#endif

namespace perdure {
namespace {

using size_classes::bytes_of;
using size_classes::class_of;

static_assert(sizeof(pobj_action) <= sizeof(Reservation::action));

constexpr std::uint64_t chunk_bytes = 256 << 10;  // of libpmemobj

pobj_action* action_of(Reservation& block) noexcept {
  return reinterpret_cast<pobj_action*>(block.action);
}

// Blocks in one run. A run is made of whole chunks and begins with its bitmap: the shortest one
// whose tail wastes little, because every class in use takes at least one. Two blocks are the
// least: libpmemobj never hands out the block of a run that has only one.
unsigned units_per_run(std::size_t bytes) noexcept {
  constexpr std::uint64_t run_overhead_bytes = 4096;
  constexpr std::uint64_t longest_run_chunks = 16;
  const std::uint64_t tolerated_share = bytes <= 2048 ? 64 : bytes <= 65536 ? 8 : 4;
  std::uint64_t units = 0;
  for (std::uint64_t chunks = 1; chunks <= longest_run_chunks; ++chunks) {
    const std::uint64_t run_bytes = chunks * chunk_bytes;
    units = (run_bytes - run_overhead_bytes) / bytes;
    if (units > 1 && run_bytes - units * bytes <= run_bytes / tolerated_share) break;
  }
  return static_cast<unsigned>(units);
}

}  // namespace

PmdkHeap::PmdkHeap(PMEMobjpool* objects, std::uint64_t heap_offset, std::uint64_t pool_bytes)
    : objects_(objects),
      pool_id_(pmemobj_oid(reinterpret_cast<std::byte*>(objects) + heap_offset).pool_uuid_lo),
      heap_offset_(heap_offset),
      pool_bytes_(pool_bytes) {}

Result<std::unique_ptr<PmdkHeap>> PmdkHeap::attach(PMEMobjpool* objects, std::uint64_t heap_offset,
                                                   std::uint64_t pool_bytes) {
  std::unique_ptr<PmdkHeap> heap(new PmdkHeap(objects, heap_offset, pool_bytes));
  if (const Result<void> registered = heap->register_classes(); !registered)
    return registered.error();
  Result<Mapping> marks = Mapping::anonymous((pool_bytes / 16 + 4095) / 4096 * 4096, 0);
  if (!marks) return marks.error();
  heap->marks_ = std::move(*marks);
  return heap;
}

Result<void> PmdkHeap::register_classes() {
  for (unsigned c = 0; c < size_classes::count; ++c) {
    pobj_alloc_class_desc shape{};
    shape.unit_size = bytes_of(c);
    shape.alignment = block_alignment(shape.unit_size);
    shape.units_per_block = units_per_run(shape.unit_size);
    shape.header_type = POBJ_HEADER_NONE;
    if (pmemobj_ctl_set(objects_, "heap.alloc_class.new.desc", &shape) != 0)
      return Error{ErrorCode::failed,
                   std::string("libpmemobj refuses an allocation class of ") +
                       std::to_string(shape.unit_size) + " bytes: " + pmemobj_errormsg(),
                   "pmdk heap", "use PoolOptions::heap slab"};
    class_flag_[c] = POBJ_CLASS_ID(shape.class_id);
  }
  return {};
}

PMEMoid PmdkHeap::object_at(std::uint64_t offset) const noexcept { return {pool_id_, offset}; }

void PmdkHeap::count(std::int64_t blocks, std::size_t bytes) noexcept {
  live_.add(blocks, block_bytes(bytes));
}

Reservation PmdkHeap::reserve(std::size_t bytes) noexcept {
  Reservation block;
  PERDURE_ASSERT(bytes > 0 && bytes <= max_block_bytes);
  PERDURE_ASSERT(swept_.load(std::memory_order_relaxed));
  if (!swept_.load(std::memory_order_acquire)) return refuse();
  const unsigned size_class = class_of(bytes);
  PMEMoid object = pmemobj_xreserve(objects_, action_of(block), bytes, 0, class_flag_[size_class]);
  if (object.off == 0) object = reserve_of_others(block, bytes, size_class);
  if (object.off == 0) return refuse();
  block.offset = object.off;
  block.bytes = static_cast<std::uint32_t>(bytes);
  count(1, bytes);
  return block;
}

// A thread allocates from one arena, which lacks what others have freed in the runs of theirs. Not
// tried again until something has been freed, so that a full pool fails quickly.
PMEMoid PmdkHeap::reserve_of_others(Reservation& block, std::size_t bytes,
                                    unsigned size_class) noexcept {
  const std::uint64_t frees = frees_.load(std::memory_order_acquire) + 1;
  if (in_vain_at_[size_class].load(std::memory_order_relaxed) == frees) return OID_NULL;
  unsigned arenas = 0;
  pmemobj_ctl_get(objects_, "heap.narenas.total", &arenas);
  for (unsigned id = 1; id <= arenas; ++id) {
    const PMEMoid object = pmemobj_xreserve(objects_, action_of(block), bytes, 0,
                                            class_flag_[size_class] | POBJ_ARENA_ID(id));
    if (object.off != 0) return object;
  }
  in_vain_at_[size_class].store(frees, std::memory_order_relaxed);
  return OID_NULL;
}

void PmdkHeap::publish(std::span<Reservation> blocks, std::atomic<std::uint64_t>* word,
                       std::uint64_t value) noexcept {
  // As many as a lane's redo log takes without growing, so that publishing cannot run out of space.
  // More blocks go ahead of the word: a crash in between leaves them to the sweep.
  constexpr std::size_t most = 16;
  std::array<pobj_action, most + 1> action;
#ifdef __SANITIZE_THREAD__
  // libpmemobj writes the word unseen by ThreadSanitizer, which must still learn of the order.
  if (word != nullptr) __tsan_release(word);
#endif
  for (;;) {
    const std::size_t now = std::min(blocks.size(), most);
    std::size_t actions = 0;
    for (; actions < now; ++actions) {
      PERDURE_ASSERT(blocks[actions]);
      std::memcpy(&action[actions], blocks[actions].action, sizeof(pobj_action));
    }
    blocks = blocks.subspan(now);
    if (blocks.empty() && word != nullptr)
      pmemobj_set_value(objects_, &action[actions++], reinterpret_cast<std::uint64_t*>(word),
                        value);
    if (actions > 0) {
      [[maybe_unused]] const int failure = pmemobj_publish(objects_, action.data(), actions);
      PERDURE_ASSERT(failure == 0);
    }
    if (blocks.empty()) return;
  }
}

void PmdkHeap::cancel(Reservation& block) noexcept {
  PERDURE_ASSERT(block);
  pmemobj_cancel(objects_, action_of(block), 1);
  count(-1, block.bytes);
  block.offset = null_offset;
}

void PmdkHeap::free(std::uint64_t offset, std::size_t bytes) noexcept {
  PMEMoid object = object_at(offset);
  pmemobj_free(&object);
  frees_.fetch_add(1, std::memory_order_release);
  count(-1, bytes);
}

std::atomic_ref<std::uint8_t> PmdkHeap::mark_of(std::uint64_t offset) const noexcept {
  return std::atomic_ref(*reinterpret_cast<std::uint8_t*>(marks_.base() + offset / 16));
}

bool PmdkHeap::mark(std::uint64_t offset, std::size_t bytes) noexcept {
  PERDURE_ASSERT(!swept_.load(std::memory_order_relaxed));
  if (bytes == 0 || bytes > max_block_bytes || offset % block_alignment(bytes) != 0) return false;
  if (offset < heap_offset_ || offset > pool_bytes_ - block_bytes(bytes)) return false;
  const auto tag = static_cast<std::uint8_t>(class_of(bytes) + 1);
  if (mark_of(offset).exchange(tag, std::memory_order_relaxed) != 0) return false;
  marked_blocks_.fetch_add(1, std::memory_order_relaxed);
  marked_bytes_.fetch_add(block_bytes(bytes), std::memory_order_relaxed);
  return true;
}

bool PmdkHeap::is_marked(std::uint64_t offset) const noexcept {
  if (swept_.load(std::memory_order_acquire) || offset % 16 != 0 || offset >= pool_bytes_)
    return false;
  return mark_of(offset).load(std::memory_order_relaxed) != 0;
}

// D2. Overlapping marks need no search: two objects never overlap, so at most one of two
// overlapping marks is an object of that size, and the other remains unmatched.
Result<std::uint64_t> PmdkHeap::sweep() {
  PERDURE_ASSERT(!swept_.load(std::memory_order_relaxed));
  std::uint64_t matched = 0;
  std::int64_t live_bytes = 0;
  std::vector<PMEMoid> leaked;
  for (PMEMoid object = pmemobj_first(objects_); object.off != 0; object = pmemobj_next(object)) {
    const std::uint8_t tag =
        object.off % 16 == 0 ? mark_of(object.off).load(std::memory_order_relaxed) : 0;
    if (tag == 0) {
      leaked.push_back(object);
    } else if (pmemobj_alloc_usable_size(object) == bytes_of(tag - 1U)) {
      ++matched;
      live_bytes += static_cast<std::int64_t>(bytes_of(tag - 1U));
    }
  }
  if (matched != marked_blocks_.load(std::memory_order_relaxed))
    return Error{ErrorCode::corrupt,
                 std::to_string(marked_blocks_.load(std::memory_order_relaxed) - matched) +
                     " reachable blocks are not allocated",
                 "pmdk heap", "restore the pool from a copy, or create a new one"};
  for (PMEMoid& object : leaked) pmemobj_free(&object);
  live_.set(static_cast<std::int64_t>(matched), live_bytes);
  marks_ = Mapping();
  // libpmemobj reads its runs at the first allocation; until then it reports none in use.
  pobj_action first_look;
  if (pmemobj_xreserve(objects_, &first_look, 1, 0, class_flag_[0]).off != 0)
    pmemobj_cancel(objects_, &first_look, 1);
  swept_.store(true, std::memory_order_release);
  return std::uint64_t{leaked.size()};
}

std::optional<Heap::Census> PmdkHeap::marked() const {
  return Census{marked_blocks_.load(std::memory_order_relaxed),
                marked_bytes_.load(std::memory_order_relaxed)};
}

std::optional<Heap::Census> PmdkHeap::allocated() {
  HeapUsage usage;
  live_.report(usage);
  return Census{usage.live_blocks, usage.live_bytes};
}

HeapUsage PmdkHeap::usage() const noexcept {
  HeapUsage usage;
  live_.report(usage);
  std::uint64_t in_runs = 0;
  pmemobj_ctl_get(objects_, "stats.heap.run_active", &in_runs);
  usage.reserved_bytes = heap_offset_ + in_runs;
  usage.capacity_bytes = pool_bytes_ - heap_offset_;
  usage.dram_bytes = sizeof *this;
  return usage;
}

}  // namespace perdure
