// Departure: how producers and consumers leave a queue when a phase is stopped, so that none of
// them stays inside.
//
// A blocking queue may hold a consumer inside `pop` until a payload comes, or a producer inside
// `push` until there is room. If everybody just stopped, it would wait for ever. So who has stopped
// waits for the others, and when that takes long, makes a call that releases one of the other side.
//
// D1  A thread leaves for good only when it has seen nobody inside.
// D2  Nobody goes inside again once nobody is: so who goes in to help is released by those who have
//     not left for good.
#pragma once

#include <atomic>
#include <cstdint>

namespace perdure::driver {

class Departure {
 public:
  enum class Side : std::uint8_t { producers, consumers };

  /// Before a phase. No thread is inside, and all will be.
  void begin(unsigned producers, unsigned consumers) noexcept {
    inside_.store(producers * one(Side::producers) + consumers, std::memory_order_release);
  }
  void leave(Side side) noexcept { inside_.fetch_sub(one(side), std::memory_order_acq_rel); }
  [[nodiscard]] bool all_out() const noexcept {
    return inside_.load(std::memory_order_acquire) == 0;
  }
  /// True when threads of the other side are inside: the caller is, too, and may release one.
  [[nodiscard]] bool return_to_help(Side side) noexcept {
    std::uint64_t inside = inside_.load(std::memory_order_acquire);
    while (has_others(inside, side))
      if (inside_.compare_exchange_weak(inside, inside + one(side), std::memory_order_acq_rel))
        return true;
    return false;
  }

 private:
  [[nodiscard]] static constexpr std::uint64_t one(Side side) noexcept {
    return side == Side::producers ? 1ULL << 32 : 1;
  }
  [[nodiscard]] static constexpr bool has_others(std::uint64_t inside, Side side) noexcept {
    return (side == Side::producers ? inside & 0xffff'ffff : inside >> 32) != 0;
  }

  std::atomic<std::uint64_t> inside_{0};  ///< producers in the upper half, consumers in the lower
};

}  // namespace perdure::driver
