// DRAM for the volatile reference indexes: from the arena that our own inner nodes use, so that a
// comparison does not turn on huge pages or on malloc, and so that memory is measured, not guessed.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "index/inner_tree/node_arena.h"
#include "pm/pm.h"

// AddressSanitizer's, where it is linked; null otherwise.
extern "C" [[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* address,
                                                            std::size_t bytes);

namespace perdure {

/// One set of free lists for each thread, so that no operation takes a lock for its memory. A block
/// may be freed by another thread than its allocator: it then serves that one.
class StripedArena {
 public:
  explicit StripedArena(bool huge_pages) noexcept : arena_(huge_pages) {}
  ~StripedArena() {
    for (const auto& stripe : stripes_) delete stripe.load(std::memory_order_relaxed);
  }
  StripedArena(const StripedArena&) = delete;
  StripedArena& operator=(const StripedArena&) = delete;

  /// `bytes` up to 1.75 MiB, aligned to 256 where the size is a multiple of 256, else to 64 from 49
  /// bytes on, else to 16. Thread-safe. No memory: std::bad_alloc.
  [[nodiscard, gnu::always_inline]] inline void* allocate(std::size_t bytes) {
    const std::size_t number = class_of(bytes);
    Stripe* const stripe = find_stripe();
    if (stripe == nullptr) [[unlikely]]
      return arena_.allocate(class_bytes(number));
    FreeBlock* const block = stripe->free[number];
    if (block == nullptr) return carve(*stripe, class_bytes(number));
    stripe->free[number] = block->next;
    return block;
  }

  /// Prefetches the memory that `allocate(bytes)` would give, if it is cold: it was in use before.
  void prefetch(std::size_t bytes) noexcept {
    const Stripe* const stripe = find_stripe();
    const auto* const block =
        stripe == nullptr ? nullptr
                          : reinterpret_cast<const std::byte*>(stripe->free[class_of(bytes)]);
    if (block == nullptr) return;
    for (std::size_t at = 0; at < bytes; at += pm::cache_line_bytes)
      pm::prefetch_for_write(block + at);
  }

  /// Takes back what `allocate(bytes)` gave. Thread-safe.
  void free(void* block, std::size_t bytes) noexcept {
    const std::size_t number = class_of(bytes);
    // Abseil marks its dead nodes for the sanitizer and relies on the allocator to lift the mark.
    if (&__asan_unpoison_memory_region != nullptr)
      __asan_unpoison_memory_region(block, class_bytes(number));
    Stripe* const stripe = find_stripe();
    if (stripe == nullptr) return;  // no memory even for lists: it is lost to the others
    stripe->free[number] = new (block) FreeBlock{stripe->free[number]};
  }

  /// For Epochs::retire, with the arena as the context.
  static void destroy(void* arena, std::uint64_t block, std::size_t bytes) {
    static_cast<StripedArena*>(arena)->free(reinterpret_cast<void*>(block), bytes);
  }

  /// Bytes taken from the system.
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    std::uint64_t bytes = sizeof *this + arena_.dram_bytes();
    for (const auto& stripe : stripes_)
      if (stripe.load(std::memory_order_relaxed) != nullptr) bytes += sizeof(Stripe);
    return bytes;
  }

  // Size classes: steps of 16 bytes up to a line, of a line up to 1 KiB, then four for each
  // doubling, so that strings of ever new lengths reuse what is free.
  [[nodiscard, gnu::always_inline]] static constexpr std::size_t class_of(
      std::size_t bytes) noexcept {
    if (bytes <= line_bytes) return bytes == 0 ? 0 : (bytes - 1) / granule_bytes;
    if (bytes <= small_bytes) return line_classes - 1 + (bytes - 1) / line_bytes;
    const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
    const std::size_t quarter = ((bytes - 1) >> (power - 2)) & 3;
    return small_classes + 4 * (power - small_power) + quarter;
  }
  [[nodiscard]] static constexpr std::size_t class_bytes(std::size_t number) noexcept {
    if (number < line_classes) return (number + 1) * granule_bytes;
    if (number < small_classes) return (number - line_classes + 2) * line_bytes;
    const std::size_t power = small_power + (number - small_classes) / 4;
    return (4 + (number - small_classes) % 4 + 1) << (power - 2);
  }

 private:
  struct FreeBlock {
    FreeBlock* next;
  };
  static constexpr std::size_t granule_bytes = 16;
  static constexpr std::size_t line_bytes = pm::cache_line_bytes;
  static constexpr std::size_t line_classes = line_bytes / granule_bytes;
  static constexpr std::size_t small_power = 10;
  static constexpr std::size_t small_bytes = std::size_t{1} << small_power;
  static constexpr std::size_t small_classes = line_classes - 1 + small_bytes / line_bytes;
  static constexpr std::size_t large_powers = 11;  // up to NodeArena's chunk of 2 MiB
  /// What a thread takes from the arena at once, for its small blocks.
  static constexpr std::size_t run_bytes = std::size_t{16} << 10;

  /// Only the thread whose slot it belongs to uses it.
  struct alignas(pm::cache_line_bytes) Stripe {
    std::array<FreeBlock*, small_classes + 4 * large_powers> free{};
    std::byte* fresh = nullptr;  ///< [fresh, end) was never used
    std::byte* end = nullptr;
  };

  /// This thread's. No memory for it: null.
  [[nodiscard, gnu::always_inline]] inline Stripe* find_stripe() noexcept {
    Stripe* const found = stripes_[pm::thread_slot()].load(std::memory_order_relaxed);
    return found != nullptr ? found : add_stripe();
  }
  [[nodiscard, gnu::noinline, gnu::cold]] Stripe* add_stripe() noexcept {
    auto* const added = new (std::nothrow) Stripe;
    stripes_[pm::thread_slot()].store(added, std::memory_order_relaxed);
    return added;
  }

  [[nodiscard, gnu::noinline]] void* carve(Stripe& stripe, std::size_t bytes) {
    if (bytes > run_bytes / 8) return arena_.allocate(bytes);
    const std::size_t alignment = bytes % 256 == 0 ? 256 : bytes < 64 ? granule_bytes : line_bytes;
    const auto misplaced = reinterpret_cast<std::uintptr_t>(stripe.fresh) % alignment;
    const std::size_t gap = misplaced == 0 ? 0 : alignment - misplaced;
    if (gap + bytes > static_cast<std::size_t>(stripe.end - stripe.fresh)) {
      stripe.fresh = static_cast<std::byte*>(arena_.allocate(run_bytes));
      stripe.end = stripe.fresh + run_bytes;
    } else {
      stripe.fresh += gap;
    }
    std::byte* const block = stripe.fresh;
    stripe.fresh += bytes;
    return block;
  }

  NodeArena arena_;
  std::array<std::atomic<Stripe*>, pm::max_threads> stripes_{};
};

/// The standard library's view of a StripedArena, which must outlive every container that uses it.
template <class T>
class ArenaAllocator {
 public:
  using value_type = T;
  static_assert(alignof(T) <= 16);

  explicit ArenaAllocator(StripedArena& arena) noexcept : arena_(&arena) {}
  template <class U>
  ArenaAllocator(const ArenaAllocator<U>& other) noexcept : arena_(&other.arena()) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(arena_->allocate(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept { arena_->free(block, count * sizeof(T)); }

  [[nodiscard]] StripedArena& arena() const noexcept { return *arena_; }
  template <class U>
  friend bool operator==(const ArenaAllocator& a, const ArenaAllocator<U>& b) noexcept {
    return &a.arena() == &b.arena();
  }

 private:
  StripedArena* arena_;
};

}  // namespace perdure
