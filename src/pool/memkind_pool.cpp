#include "pool/memkind_pool.h"

#include <memkind.h>

#include "core/assert.h"
#include "pool/new_file.h"

namespace perdure {
namespace {

Error keeps_nothing(const std::string& path) {
  return {ErrorCode::unsupported, "a memkind pool keeps nothing, so it has no roots", path,
          "use PoolOptions::heap slab or pmdk"};
}

}  // namespace

Result<std::unique_ptr<MemkindHeap>> MemkindHeap::over(std::byte* base, std::uint64_t bytes) {
  std::unique_ptr<MemkindHeap> heap(new MemkindHeap(base, bytes));
  if (const int failure = memkind_create_fixed(base, bytes, &heap->kind_);
      failure != MEMKIND_SUCCESS)
    return Error{ErrorCode::failed, "memkind refuses the memory: " + std::to_string(failure),
                 "memkind heap", "make the pool larger"};
  return heap;
}

MemkindHeap::~MemkindHeap() {
  if (kind_ != nullptr) memkind_destroy_kind(kind_);
}

void* MemkindHeap::allocate(std::size_t bytes) noexcept {
  // Aligned to pages, because jemalloc, which memkind uses, would start a large block anywhere in
  // its first page.
  constexpr std::size_t page_bytes = 4096;
  void* block = nullptr;
  if (bytes < page_bytes)
    block = memkind_malloc(kind_, bytes);
  else if (memkind_posix_memalign(kind_, &block, page_bytes, bytes) != 0)
    block = nullptr;
  if (block != nullptr)
    live_.add(1, bytes);
  else
    (void)refuse();
  return block;
}

void MemkindHeap::release(void* block, std::size_t bytes) noexcept {
  memkind_free(kind_, block);
  live_.add(-1, bytes);
}

Reservation MemkindHeap::reserve(std::size_t bytes) noexcept {
  Reservation block;
  PERDURE_ASSERT(bytes > 0 && bytes <= max_block_bytes);
  void* memory = nullptr;
  if (memkind_posix_memalign(kind_, &memory, block_alignment(bytes), block_bytes(bytes)) != 0)
    return refuse();
  live_.add(1, bytes);
  block.offset = static_cast<std::uint64_t>(static_cast<std::byte*>(memory) - base_);
  block.bytes = static_cast<std::uint32_t>(bytes);
  return block;
}

void MemkindHeap::publish(std::span<Reservation>, std::atomic<std::uint64_t>* word,
                          std::uint64_t value) noexcept {
  if (word != nullptr) word->store(value, std::memory_order_release);
}

void MemkindHeap::free(std::uint64_t offset, std::size_t bytes) noexcept {
  release(base_ + offset, bytes);
}

HeapUsage MemkindHeap::usage() const noexcept {
  HeapUsage usage;
  live_.report(usage);
  std::size_t taken = 0;
  memkind_update_cached_stats();
  memkind_get_stat(kind_, MEMKIND_STAT_TYPE_ACTIVE, &taken);
  usage.reserved_bytes = taken;
  usage.capacity_bytes = bytes_;
  usage.dram_bytes = sizeof *this;
  return usage;
}

Result<std::unique_ptr<Pool>> MemkindPool::create(const PoolOptions& options) {
  const std::uint64_t bytes = (options.bytes + 4095) / 4096 * 4096;
  Result<NewFile> made = NewFile::create(options.path, bytes, options.overwrite);
  if (!made) return made.error();
  if (made->needs_room())
    if (const Result<void> gone = made->withdraw_replaced(); !gone) return gone.error();
  std::unique_ptr<MemkindPool> pool(new MemkindPool);
  const int file = made->file().get();
  pool->medium_ = medium_of(file);
  const bool huge_file = options.huge_pages && pool->medium_ == Medium::tmpfs;
  if (const Result<void> room = made->fill(huge_file); !room) return room.error();
  Result<Mapping> mapping = Mapping::of_file(file, bytes, options.map_address, options.path);
  if (!mapping) return mapping.error();
  pool->mapping_ = std::move(*mapping);
  pool->base_ = pool->mapping_.base();
  pool->set_size(bytes);
  pool->path_ = options.path;
  pool->heap_kind_ = HeapKind::memkind;
  if (options.huge_pages) request_huge_pages(pool->base_, bytes, pool->medium_);
  if (options.prefault) prefault(pool->base_, bytes);
  auto heap = MemkindHeap::over(pool->base_, bytes);
  if (!heap) return heap.error();
  pool->heap_ = std::move(*heap);
  pool->ready_ = true;
  return std::unique_ptr<Pool>(std::move(pool));  // the file goes unnamed: nothing finds it later
}

MemkindPool::~MemkindPool() { static_cast<void>(close()); }

Result<void> MemkindPool::close() {
  heap_.reset();  // before the mapping it speaks of
  mapping_ = Mapping();
  base_ = nullptr;
  ready_ = false;
  return {};
}

std::uint64_t MemkindPool::huge_page_bytes() const {
  return perdure::huge_page_bytes(base_, bytes());
}

Result<void> MemkindPool::add_root(std::string_view, Reservation&) { return keeps_nothing(path_); }
Result<void> MemkindPool::root_recovered(std::string_view) { return keeps_nothing(path_); }

}  // namespace perdure
