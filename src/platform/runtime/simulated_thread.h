// SimulatedThread: one thread of the simulation, independent of its carrier.
#pragma once

#include <emmintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "platform/model/time.h"
#include "platform/runtime/baton.h"

namespace perdure::platform::runtime {

struct Transaction;
struct CallNode;

/// Loads that are not complete, and the values they will bring: an access to an address near such a
/// value cannot start before it is there. A hook carries no value, so it is read at the same
/// thread's next hook.
class IncompleteLoads {
 public:
  /// Reads the value of the load noted last. Cost: nothing, when there is none.
  [[gnu::always_inline]] void settle(Time now) noexcept {
    if (awaited_ == nullptr) [[likely]]
      return;
    const std::uint64_t value = *awaited_;
    awaited_ = nullptr;
    if (ready_ <= now) return;
    note(value, ready_);
  }
  [[gnu::always_inline]] void expect(const void* address, Time ready) noexcept {
    awaited_ = static_cast<const std::uint64_t*>(address);
    ready_ = ready;
  }
  [[gnu::always_inline]] void note(std::uint64_t value, Time ready) noexcept {
    constexpr std::uint64_t address_bits = (std::uint64_t{1} << 48) - 1;
    constexpr std::uint64_t tag_bits = 15;
    const std::size_t at = next_++ % recent_.size();
    recent_[at] = {value & address_bits & ~tag_bits, ready};
    pages_[at] = static_cast<std::uint32_t>(recent_[at].value / window);
    if (ready > latest_) latest_ = ready;
  }
  /// When the load that brought `address` is complete; 0: long ago, or none did.
  [[nodiscard, gnu::always_inline]] Time ready(const void* address, Time now) const noexcept {
    if (latest_ <= now) return 0;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const unsigned candidates = near(at) | near(at - pool_base);
    return candidates == 0 ? 0 : search(at, now, candidates);
  }
  void forget() noexcept {
    awaited_ = nullptr;
    latest_ = 0;
  }

  /// Pointers on media are offsets from here.
  static std::uintptr_t pool_base;

 private:
  static constexpr std::uint64_t window = 4096;  ///< how far beyond a pointer its object reaches
  static constexpr unsigned count = 8;
  struct Recent {
    std::uint64_t value = 0;
    Time ready = 0;
  };

  /// Bit per value that can be near the address: it lies in the same page, or in the one before.
  [[nodiscard, gnu::always_inline]] unsigned near(std::uintptr_t address) const noexcept {
    const __m128i page = _mm_set1_epi32(static_cast<int>(address / window));
    unsigned found = 0;
    for (unsigned first = 0; first < count; first += 4) {
      const __m128i pages = _mm_load_si128(reinterpret_cast<const __m128i*>(&pages_[first]));
      const __m128i distance = _mm_srli_epi32(_mm_sub_epi32(page, pages), 1);
      const __m128i same = _mm_cmpeq_epi32(distance, _mm_setzero_si128());
      found |= static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(same))) << first;
    }
    return found;
  }
  [[nodiscard]] Time search(std::uintptr_t address, Time now, unsigned candidates) const noexcept;

  const std::uint64_t* awaited_ = nullptr;
  Time ready_ = 0;
  Time latest_ = 0;
  unsigned next_ = 0;
  alignas(16) std::array<std::uint32_t, count> pages_{};  ///< of the values, low bits
  std::array<Recent, count> recent_{};
};

struct SimulatedThread {
  unsigned number = 0;
  Time clock = 0;  ///< the machine's, after its last call
  std::uint64_t accesses = 0;
  Transaction* transaction = nullptr;  ///< the one under way
  bool shares_caches = false;          ///< with the sibling of its core
  bool finished = false;
  bool asleep = false;  ///< in the background, until it is woken
  // Since the last turn, with the model off.
  std::uint32_t untimed_run = 0;       ///< atomic operations
  std::uint32_t untimed_accesses = 0;  ///< all others
  IncompleteLoads loads;
  std::exception_ptr failure;

  // profile
  CallNode* node = nullptr;
  Time node_since = 0;

  // carrier
  void* context = nullptr;  ///< where the fiber was left
  void* storage = nullptr;  ///< thread-local, of its OS thread; null: it has none of its own
  std::byte* storage_stack = nullptr;  ///< of that OS thread; the storage lies at its top
  std::byte* stack = nullptr;          ///< lowest usable byte
  std::byte* stack_top = nullptr;
  std::array<void*, 2> exception_state{};  ///< of the C++ runtime, which keeps it per OS thread
  Baton baton;                             ///< its OS thread waits for it
};

/// Null where no simulated thread runs.
extern thread_local constinit SimulatedThread* current __attribute__((tls_model("local-exec")));

}  // namespace perdure::platform::runtime
