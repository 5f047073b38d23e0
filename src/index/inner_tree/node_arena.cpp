#include "index/inner_tree/node_arena.h"

#include <sys/mman.h>

#include <array>
#include <new>

#include "core/assert.h"

namespace perdure {
namespace {

/// Holds the arena's lock for a scope.
class Locked {
 public:
  explicit Locked(pm::VersionLock& lock) noexcept : lock_(lock) {
    [[maybe_unused]] const bool taken = lock.lock();
    PERDURE_ASSERT(taken);
  }
  ~Locked() { lock_.unlock_unchanged(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pm::VersionLock& lock_;
};

// Chunks on small pages that arenas gave back. Whoever opens an index very often (the crash
// explorer does for each state) would otherwise spend most of the time in the system.
// Not hooked, and by builtins, because std::atomic's functions would be: what an arena finds here
// depends on the past, and must not show in a simulated or explored run.
std::array<std::byte*, 8> spare_chunks{};

__attribute__((no_sanitize("thread"))) std::byte* take_spare_chunk() noexcept {
  for (std::size_t i = 0; i < 8; ++i)
    if (std::byte* const chunk =
            __atomic_exchange_n(spare_chunks.data() + i, nullptr, __ATOMIC_ACQUIRE))
      return chunk;
  return nullptr;
}

__attribute__((no_sanitize("thread"))) bool keep_spare_chunk(std::byte* chunk) noexcept {
  for (std::size_t i = 0; i < 8; ++i) {
    std::byte* none = nullptr;
    if (__atomic_compare_exchange_n(spare_chunks.data() + i, &none, chunk, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED))
      return true;
  }
  return false;
}

// The system aligns to 4 KiB only: map twice as much and give the ends back.
std::byte* map_chunk(bool huge_pages) {
  constexpr std::size_t chunk = NodeArena::chunk_bytes;
  if (!huge_pages)
    if (std::byte* const spare = take_spare_chunk()) return spare;
  void* const mapped =
      mmap(nullptr, 2 * chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t head = (chunk - reinterpret_cast<std::uintptr_t>(begin) % chunk) % chunk;
  if (head != 0) munmap(begin, head);
  munmap(begin + head + chunk, chunk - head);
  if (huge_pages) madvise(begin + head, chunk, MADV_HUGEPAGE);
  return begin + head;
}

void unmap_chunk(std::byte* chunk, bool huge_pages) noexcept {
  if (huge_pages || !keep_spare_chunk(chunk)) munmap(chunk, NodeArena::chunk_bytes);
}

}  // namespace

ChunkReserve::~ChunkReserve() {
  for (std::byte* const chunk : chunks_) unmap_chunk(chunk, huge_pages_);
}

std::byte* ChunkReserve::take() noexcept {
  const Locked locked(lock_);
  if (chunks_.empty()) return nullptr;
  std::byte* const chunk = chunks_.back();
  chunks_.pop_back();
  return chunk;
}

void ChunkReserve::keep(std::vector<std::byte*>& chunks) noexcept {
  const Locked locked(lock_);
  const std::size_t wanted = chunks.size();
  try {
    chunks_.reserve(wanted);
  } catch (const std::bad_alloc&) {
    return;  // the arena unmaps them
  }
  while (!chunks.empty() && chunks_.size() < wanted) {
    chunks_.push_back(chunks.back());
    chunks.pop_back();
  }
}

std::uint64_t ChunkReserve::dram_bytes() const noexcept {
  const Locked locked(lock_);
  return chunks_.size() * NodeArena::chunk_bytes;
}

NodeArena::~NodeArena() {
  if (reserve_ != nullptr) reserve_->keep(chunks_);
  for (Reservation& chunk : pool_chunks_) pool_->heap().cancel_volatile(chunk);
  for (std::byte* const chunk : chunks_) unmap_chunk(chunk, huge_pages_);
}

void* NodeArena::allocate(std::size_t bytes) {
  PERDURE_ASSERT(bytes > 0 && bytes <= chunk_bytes);
  const std::size_t granules = (bytes + granule_bytes - 1) / granule_bytes;
  const std::size_t alignment = bytes % 256 == 0 ? 256 : bytes >= 64 ? 64 : granule_bytes;
  const Locked locked(lock_);
  if (granules < free_.size() && free_[granules] != nullptr) {
    FreeBlock* const block = free_[granules];
    free_[granules] = block->next;
    return block;
  }
  if (granules >= free_.size()) free_.resize(granules + 1, nullptr);
  return carve(granules * granule_bytes, alignment);
}

bool NodeArena::take_chunk_of_pool() {
  if (pool_ == nullptr || !pool_->ready()) return false;
  pool_chunks_.emplace_back();  // grow first: a chunk must not be lost to a failing vector
  pool_chunks_.back() = pool_->heap().reserve_volatile(pool_chunk_bytes);
  if (!pool_chunks_.back()) {
    pool_chunks_.pop_back();
    return false;
  }
  rest_ = {pool_->at<std::byte>(pool_chunks_.back().offset), pool_chunk_bytes};
  rest_in_pool_ = true;
  return true;
}

void NodeArena::take_chunk() {
  chunks_.push_back(nullptr);  // as above
  try {
    if (reserve_ != nullptr) chunks_.back() = reserve_->take();
    if (chunks_.back() == nullptr) chunks_.back() = map_chunk(huge_pages_);
  } catch (...) {
    chunks_.pop_back();
    throw;
  }
  rest_ = {chunks_.back(), chunk_bytes};
  rest_in_pool_ = false;
}

void* NodeArena::carve(std::size_t bytes, std::size_t alignment) {
  const auto skipped = [&] {
    return (alignment - reinterpret_cast<std::uintptr_t>(rest_.data()) % alignment) % alignment;
  };
  const bool is_used_up = skipped() + bytes > rest_.size();
  if (is_used_up || (pool_ != nullptr && !rest_in_pool_))
    if ((bytes > pool_chunk_bytes || !take_chunk_of_pool()) && is_used_up) take_chunk();
  std::byte* const block = rest_.data() + skipped();
  rest_ = rest_.subspan(skipped() + bytes);
  return block;
}

void NodeArena::free(void* block, std::size_t bytes) noexcept {
  const std::size_t granules = (bytes + granule_bytes - 1) / granule_bytes;
  const Locked locked(lock_);
  PERDURE_ASSERT(granules < free_.size());
  free_[granules] = new (block) FreeBlock{free_[granules]};
}

std::uint64_t NodeArena::dram_bytes() const noexcept {
  const Locked locked(lock_);
  return chunks_.size() * chunk_bytes + free_.capacity() * sizeof(FreeBlock*);
}

}  // namespace perdure
