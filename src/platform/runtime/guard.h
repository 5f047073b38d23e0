// Guard: proves that every store to persistent memory was seen.
//
// It keeps a shadow of each region. A hook comes before its store, so the bytes are copied to the
// shadow at the same simulated thread's next hook that is not a load's, and when another one runs.
// At a fence all lines stored to since the last one are compared, and `check` compares everything:
// a byte that differs was changed unseen.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "platform/runtime/address_space.h"

namespace perdure::platform::runtime {

class Guard {
  struct Awaited {
    const std::byte* address = nullptr;
    std::size_t bytes = 0;
    const void* site = nullptr;
  };

 public:
  void add(const AddressSpace::Region& region);
  void remove(const void* base);

  /// Copies what the last hooked store has written. Not called at loads: of a copied object the
  /// compiler announces store and load before it does either.
  void settle() noexcept {
    if (awaited.bytes != 0) settle_now();
  }
  /// A store to [address, address + bytes) follows; `site`: an address in the function that stores.
  void expect(const void* address, std::size_t bytes, const void* site) noexcept {
    settle();
    awaited = {static_cast<const std::byte*>(address), bytes, site};
  }
  /// The same for a store that is done.
  void stored(const void* address, std::size_t bytes, const void* site) noexcept {
    expect(address, bytes, site);
    settle();
  }
  /// The range was changed by someone who is trusted: the runtime, libpmemobj. The store that is
  /// awaited is so afterwards, too: a load of its thread may have undone a transaction.
  void accept(const void* address, std::size_t bytes) noexcept;

  /// While others run: settles, because they may fence what this thread has stored, and awaits the
  /// same store again afterwards, because it is still to come when the load of a copied object has
  /// let them run. Nothing happens where `guarded` is false.
  class Turn {
   public:
    [[gnu::always_inline]] Turn(Guard& guard, bool guarded) noexcept {
      if (!guarded) [[likely]]
        return;
      mine_ = awaited;
      guard.settle();
    }
    [[gnu::always_inline]] ~Turn() {
      if (mine_.bytes != 0) [[unlikely]]
        awaited = mine_;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Awaited mine_;
  };

  /// Compares the lines stored to since the last call.
  void at_fence();
  /// Compares everything; the first difference ever found, or empty.
  [[nodiscard]] std::string check();

 private:
  struct Shadow {
    const std::byte* base;
    std::uint64_t bytes;
    std::byte* copy;
    bool foreign_writes;
  };

  void settle_now() noexcept;
  [[nodiscard]] Shadow* shadow_of(const std::byte* address) noexcept;
  void compare(const Shadow& shadow, std::uint64_t offset, std::uint64_t bytes);

  static thread_local constinit Awaited awaited;
  std::vector<Shadow> shadows_;
  std::atomic_flag busy_;  ///< helper threads store too; no mutex, which the runtime intercepts
  std::vector<const std::byte*> stored_lines_;
  const void* last_site_ = nullptr;
  std::string failure_;  ///< the first one, without the name of its site
  const void* failed_site_ = nullptr;
};

}  // namespace perdure::platform::runtime
