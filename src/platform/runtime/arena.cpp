#include "platform/runtime/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "platform/runtime/simulated_thread.h"
#include "platform/runtime/spin_hold.h"

namespace perdure::platform::runtime {

struct Arena::Chunk {
  static constexpr unsigned large = ~0U;
  unsigned size_class;
  std::size_t bytes;  ///< of a large block, its header included
  Chunk* next;        ///< while it is free
};

struct Arena::Free {
  Free* next;
};

namespace {
constexpr std::size_t header_bytes = 64;
constexpr std::size_t smallest_block_bytes = 16;
}  // namespace

// Four classes to a doubling: 16, 20, 24, 28, 32, 40, ... rounded up to 16.
unsigned Arena::class_of(std::size_t bytes) noexcept {
  bytes = std::max(bytes, smallest_block_bytes);
  const auto order = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;
  const std::size_t quarter = std::max<std::size_t>(std::size_t{1} << order >> 2, 1);
  const auto step = static_cast<unsigned>((bytes - 1 - (std::size_t{1} << order)) / quarter);
  return bytes == smallest_block_bytes ? 0 : 4 * (order - 4) + step + 1;
}

std::size_t Arena::bytes_of(unsigned size_class) noexcept {
  if (size_class == 0) return smallest_block_bytes;
  const unsigned order = (size_class - 1) / 4 + 4;
  const std::size_t bytes =
      (std::size_t{1} << order) + ((std::size_t{1} << order >> 2) * ((size_class - 1) % 4 + 1));
  return (bytes + 15) / 16 * 16;
}

Arena::Chunk* Arena::new_chunk(std::size_t bytes) {
  if (base_ == nullptr) {
    void* memory = mmap(nullptr, reserved_bytes + chunk_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    const auto start = reinterpret_cast<std::uintptr_t>(memory);
    base_ = reinterpret_cast<std::byte*>((start + chunk_bytes - 1) / chunk_bytes * chunk_bytes);
  }
  if (bytes > reserved_bytes - used_) throw std::bad_alloc();
  auto* const chunk = reinterpret_cast<Chunk*>(base_ + used_);
  used_ += (bytes + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
  return chunk;
}

void Arena::refill(unsigned size_class) {
  Chunk* const chunk = new_chunk(chunk_bytes);
  chunk->size_class = size_class;
  const std::size_t bytes = bytes_of(size_class);
  const std::size_t count = (chunk_bytes - header_bytes) / bytes;
  auto* const first = reinterpret_cast<std::byte*>(chunk) + header_bytes;
  for (std::size_t i = count; i-- > 0;) {
    auto* const block = reinterpret_cast<Free*>(first + i * bytes);
    block->next = free_[size_class];
    free_[size_class] = block;
  }
}

void* Arena::allocate(std::size_t bytes, std::size_t alignment) {
  const SpinHold hold(busy_);
  // Blocks of a multiple of 64 bytes lie at multiples of 64.
  if (alignment > 16) bytes = (bytes + 63) / 64 * 64;
  if (bytes <= largest_class_bytes && alignment <= 64) {
    unsigned size_class = class_of(bytes);
    while (alignment > 16 && bytes_of(size_class) % 64 != 0) ++size_class;
    if (free_[size_class] == nullptr) refill(size_class);
    Free* const block = free_[size_class];
    free_[size_class] = block->next;
    return block;
  }
  const std::size_t offset = std::max(header_bytes, alignment);
  if (offset > chunk_bytes / 2) return nullptr;
  const std::size_t needed = (bytes + offset + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
  Chunk** link = &free_large_;
  while (*link != nullptr && (*link)->bytes != needed) link = &(*link)->next;
  Chunk* chunk = *link;
  if (chunk != nullptr)
    *link = chunk->next;
  else
    chunk = new_chunk(needed);
  chunk->size_class = Chunk::large;
  chunk->bytes = needed;
  return reinterpret_cast<std::byte*>(chunk) + offset;
}

void Arena::free(void* block) noexcept {
  const SpinHold hold(busy_);
  const auto at = reinterpret_cast<std::uintptr_t>(block);
  auto* const chunk = reinterpret_cast<Chunk*>(at / chunk_bytes * chunk_bytes);
  if (chunk->size_class == Chunk::large) {
    chunk->next = free_large_;
    free_large_ = chunk;
    return;
  }
  auto* const freed = static_cast<Free*>(block);
  freed->next = free_[chunk->size_class];
  free_[chunk->size_class] = freed;
}

namespace {

constinit Arena arena;
constinit thread_local bool owner = false;

void* allocate_on_host(std::size_t bytes, std::size_t alignment) {
  void* const block =
      alignment <= 16
          ? std::malloc(std::max<std::size_t>(bytes, 1))
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* block = nullptr;
  if (current != nullptr || owner) block = arena.allocate(bytes, alignment);
  return block != nullptr ? block : allocate_on_host(bytes, alignment);
}

void release(void* block) noexcept {
  if (arena.owns(block))
    arena.free(block);
  else
    std::free(block);
}

}  // namespace

bool use_arena_on_this_thread(bool use) noexcept { return std::exchange(owner, use); }

bool arena_owns(const void* block) noexcept { return arena.owns(block); }

}  // namespace perdure::platform::runtime

// Of all other code. The other forms of the standard library call these.
void* simulated_new(std::size_t bytes) __asm__("_Znwm");
void* simulated_new(std::size_t bytes) { return perdure::platform::runtime::allocate(bytes, 16); }
void* simulated_new(std::size_t bytes, std::align_val_t alignment) __asm__("_ZnwmSt11align_val_t");
void* simulated_new(std::size_t bytes, std::align_val_t alignment) {
  return perdure::platform::runtime::allocate(bytes, static_cast<std::size_t>(alignment));
}

// Of the runtime (own_memory_functions.h).
extern "C" {
void* perdure_own_new(std::size_t bytes) {
  return perdure::platform::runtime::allocate_on_host(bytes, 16);
}
void* perdure_own_new_aligned(std::size_t bytes, std::align_val_t alignment) {
  return perdure::platform::runtime::allocate_on_host(bytes, static_cast<std::size_t>(alignment));
}
}

void operator delete(void* block) noexcept { perdure::platform::runtime::release(block); }
void operator delete(void* block, std::size_t) noexcept {
  perdure::platform::runtime::release(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  perdure::platform::runtime::release(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  perdure::platform::runtime::release(block);
}
