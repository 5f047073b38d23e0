// What ROART keeps on media for its instant restart, in a block of its own.
//
//   byte 0        8            16       64
//        | opening | high water | unused |
//
// O1  `opening` holds how often the tree was opened, sealed (pool/sealed_word.h); its lower 15 bits
//     are the number that locks carry (opening_lock.h). It is durable before any lock does.
// O2  `high_water` is the heap's (pool/heap.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

#include "pm/pm.h"
#include "pool/sealed_word.h"

namespace perdure::roart {

struct Restart {
  std::atomic<std::uint64_t> opening;
  std::atomic<std::uint64_t> high_water;
  std::array<std::uint64_t, 6> unused;

  [[nodiscard]] static Restart* make(void* memory) noexcept {
    auto* const restart = new (memory) Restart;
    restart->opening.store(sealed(0, purpose), std::memory_order_relaxed);
    restart->high_water.store(0, std::memory_order_relaxed);
    restart->unused = {};
    return restart;
  }
  /// None: damaged.
  [[nodiscard]] std::optional<std::uint32_t> openings() const noexcept {
    return unsealed(opening.load(std::memory_order_relaxed), purpose);
  }
  /// Cost: 1 flush, 1 fence.
  void set_openings(std::uint32_t count) noexcept {
    pm::store_persist(opening, sealed(count, purpose));
  }

 private:
  static constexpr std::uint64_t purpose = 0x6f70656e696e6773ULL;
  Restart() = default;
};
static_assert(sizeof(Restart) == 64 && offsetof(Restart, high_water) == 8);

}  // namespace perdure::roart
