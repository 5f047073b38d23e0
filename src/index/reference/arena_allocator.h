// DRAM for the volatile reference indexes: from the arena that our own inner nodes use, so that a
// comparison does not turn on huge pages or on malloc, and so that memory is measured, not guessed.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/assert.h"
#include "index/inner_tree/node_arena.h"
#include "pm/pm.h"

// AddressSanitizer's, where it is linked; null otherwise.
extern "C" [[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* address,
                                                            std::size_t bytes);

namespace perdure {

/// One arena and one set of free lists for each group of threads. A block may be freed by another
/// group than its allocator's: it then serves that one, which is sound because all arenas live
/// equally long.
class StripedArena {
 public:
  explicit StripedArena(bool huge_pages) noexcept
      : StripedArena(huge_pages, std::make_index_sequence<stripe_count>()) {}

  /// `bytes` up to 1.75 MiB, aligned to 16. Thread-safe. No memory: std::bad_alloc.
  [[nodiscard]] void* allocate(std::size_t bytes) {
    const std::size_t number = class_of(bytes);
    Stripe& stripe = stripes_[pm::thread_slot() % stripe_count];
    const StripeGuard guard(stripe.lock);
    FreeBlock* const block = stripe.free[number];
    if (block == nullptr) return stripe.arena.allocate(class_bytes(number));
    stripe.free[number] = block->next;
    return block;
  }

  /// Takes back what `allocate(bytes)` gave. Thread-safe.
  void free(void* block, std::size_t bytes) noexcept {
    const std::size_t number = class_of(bytes);
    // Abseil marks its dead nodes for the sanitizer and relies on the allocator to lift the mark.
    if (&__asan_unpoison_memory_region != nullptr)
      __asan_unpoison_memory_region(block, class_bytes(number));
    Stripe& stripe = stripes_[pm::thread_slot() % stripe_count];
    const StripeGuard guard(stripe.lock);
    stripe.free[number] = new (block) FreeBlock{stripe.free[number]};
  }

  /// For Epochs::retire, with the arena as the context.
  static void destroy(void* arena, std::uint64_t block, std::size_t bytes) {
    static_cast<StripedArena*>(arena)->free(reinterpret_cast<void*>(block), bytes);
  }

  /// Bytes taken from the system.
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    std::uint64_t bytes = sizeof *this;
    for (const Stripe& stripe : stripes_) bytes += stripe.arena.dram_bytes();
    return bytes;
  }

  // Size classes: steps of 16 bytes up to 1 KiB, then four for each doubling, so that strings of
  // ever new lengths reuse what is free.
  [[nodiscard]] static constexpr std::size_t class_of(std::size_t bytes) noexcept {
    if (bytes <= small_bytes) return bytes == 0 ? 0 : (bytes - 1) / granule_bytes;
    const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
    const std::size_t quarter = ((bytes - 1) >> (power - 2)) & 3;
    return small_classes + 4 * (power - small_power) + quarter;
  }
  [[nodiscard]] static constexpr std::size_t class_bytes(std::size_t number) noexcept {
    if (number < small_classes) return (number + 1) * granule_bytes;
    const std::size_t power = small_power + (number - small_classes) / 4;
    return (4 + (number - small_classes) % 4 + 1) << (power - 2);
  }

 private:
  struct FreeBlock {
    FreeBlock* next;
  };
  static constexpr std::size_t stripe_count = 8;
  static constexpr std::size_t granule_bytes = 16;
  static constexpr std::size_t small_power = 10;
  static constexpr std::size_t small_bytes = std::size_t{1} << small_power;
  static constexpr std::size_t small_classes = small_bytes / granule_bytes;
  static constexpr std::size_t large_powers = 11;  // up to NodeArena's chunk of 2 MiB

  struct alignas(pm::cache_line_bytes) Stripe {
    explicit Stripe(bool huge_pages) noexcept : arena(huge_pages) {}
    pm::VersionLock lock;
    std::array<FreeBlock*, small_classes + 4 * large_powers> free{};
    NodeArena arena;
  };

  class StripeGuard {
   public:
    explicit StripeGuard(pm::VersionLock& lock) noexcept : lock_(lock) {
      [[maybe_unused]] const bool taken = lock_.lock();
      PERDURE_ASSERT(taken);
    }
    ~StripeGuard() { lock_.unlock_unchanged(); }
    StripeGuard(const StripeGuard&) = delete;
    StripeGuard& operator=(const StripeGuard&) = delete;

   private:
    pm::VersionLock& lock_;
  };

  template <std::size_t... i>
  StripedArena(bool huge_pages, std::index_sequence<i...>) noexcept
      : stripes_{make<i>(huge_pages)...} {}
  template <std::size_t>
  [[nodiscard]] static Stripe make(bool huge_pages) noexcept {
    return Stripe(huge_pages);
  }

  std::array<Stripe, stripe_count> stripes_;
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
