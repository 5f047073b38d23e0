// SimulatedThread: one thread of the simulation, whatever carries it.
#pragma once

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
  void settle(Time now) noexcept {
    if (awaited_ == nullptr) [[likely]]
      return;
    const std::uint64_t value = *awaited_;
    awaited_ = nullptr;
    if (ready_ <= now) return;
    note(value, ready_);
  }
  void expect(const void* address, Time ready) noexcept {
    awaited_ = static_cast<const std::uint64_t*>(address);
    ready_ = ready;
  }
  void note(std::uint64_t value, Time ready) noexcept {
    constexpr std::uint64_t address_bits = (std::uint64_t{1} << 48) - 1;
    constexpr std::uint64_t tag_bits = 15;
    recent_[next_++ % recent_.size()] = {value & address_bits & ~tag_bits, ready};
    if (ready > latest_) latest_ = ready;
  }
  /// When the load that brought `address` is complete; 0: long ago, or none did.
  [[nodiscard]] Time ready(const void* address, Time now) const noexcept {
    return latest_ <= now ? 0 : search(reinterpret_cast<std::uintptr_t>(address), now);
  }
  void forget() noexcept {
    awaited_ = nullptr;
    latest_ = 0;
  }

  /// Pointers on media are offsets from here.
  static std::uintptr_t pool_base;

 private:
  static constexpr std::uint64_t window = 4096;  ///< how far behind a pointer its object reaches
  struct Recent {
    std::uint64_t value = 0;
    Time ready = 0;
  };

  [[nodiscard]] Time search(std::uintptr_t address, Time now) const noexcept {
    Time ready = 0;
    for (const Recent& recent : recent_) {
      if (recent.ready <= now || recent.value < window) continue;
      const bool points = address - recent.value < window;
      const bool offset = pool_base != 0 && address - (recent.value + pool_base) < window;
      if ((points || offset) && recent.ready > ready) ready = recent.ready;
    }
    return ready;
  }

  const std::uint64_t* awaited_ = nullptr;
  Time ready_ = 0;
  Time latest_ = 0;
  std::array<Recent, 8> recent_{};
  unsigned next_ = 0;
};

struct SimulatedThread {
  unsigned number = 0;
  Time clock = 0;  ///< the machine's, after its last call
  std::uint64_t accesses = 0;
  IncompleteLoads loads;
  Transaction* transaction = nullptr;  ///< the one under way
  // Since the last turn, with the model off.
  std::uint32_t untimed_run = 0;       ///< atomic operations
  std::uint32_t untimed_accesses = 0;  ///< all others
  bool shares_caches = false;          ///< with the sibling of its core
  bool finished = false;
  std::exception_ptr failure;

  // profile
  CallNode* node = nullptr;
  Time node_since = 0;

  // carrier
  void* context = nullptr;     ///< where the fiber was left
  std::byte* stack = nullptr;  ///< lowest usable byte
  std::byte* stack_top = nullptr;
  std::array<void*, 2> exception_state{};  ///< of the C++ runtime, which keeps it per OS thread
  Baton baton;
};

/// Null where no simulated thread runs.
extern thread_local constinit SimulatedThread* current __attribute__((tls_model("local-exec")));

}  // namespace perdure::platform::runtime
