// The lock word of ROART's nodes and arrays on media: pm::VersionLock with the number of the
// opening that the word is of.
//
//   bit 63            62        47        1          0
//      | being taken over | opening | version | obsolete | locked |
//
// K1  a word is of the opening whose number it carries. Of one of before it says nothing but that,
//     and nothing else of it is read: whoever wants the lock puts the number of now in the number's
//     place, marked as being taken over, which one of several can, then a whole word, locked. Then
//     it repairs and marks what the lock guards. Until then nobody of this opening has changed
//     that. A word that a power cut left marked is of before, like any other.
// K2  numbers are durable before a word carries them (restart.h), so no word is of a later opening.
//     Where they come round, all words are set, durably, before anyone is served.
// K3  obsolete and of now: unlinked for good; the memory is freed after a grace period.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/assert.h"
#include "pm/hints.h"

namespace perdure::roart {

class OpeningLock {
 public:
  static constexpr std::uint64_t locked_bit = 1;
  static constexpr std::uint64_t obsolete_bit = 2;
  static constexpr std::uint64_t version_step = 4;
  static constexpr unsigned opening_shift = 48;
  static constexpr std::uint16_t taking_over = 0x8000;
  static constexpr std::uint16_t most_openings = taking_over;  ///< their numbers are below it

  /// Unlocked and of this opening.
  explicit OpeningLock(std::uint16_t opening) noexcept : word_(first_word(opening)) {}

  [[nodiscard]] std::uint64_t peek() const noexcept {
    return word_.load(std::memory_order_acquire);
  }
  /// The number alone, marked or not.
  [[nodiscard]] std::uint16_t opening() const noexcept {
    return number().load(std::memory_order_acquire);
  }
  [[nodiscard]] static bool is_locked(std::uint64_t word) noexcept {
    return (word & locked_bit) != 0;
  }
  [[nodiscard]] static bool is_obsolete(std::uint64_t word) noexcept {
    return (word & obsolete_bit) != 0;
  }
  [[nodiscard]] static std::uint16_t opening_of(std::uint64_t word) noexcept {
    return static_cast<std::uint16_t>(word >> opening_shift);
  }
  [[nodiscard]] bool validate(std::uint64_t word) const noexcept { return peek() == word; }

  /// Takes the lock if it is free and not obsolete. Never waits. The word is of now.
  [[nodiscard]] bool try_lock() noexcept {
    const std::uint64_t word = peek();
    return (word & (locked_bit | obsolete_bit)) == 0 && change(word, word | locked_bit);
  }
  /// Waits for the lock; false when what it guards turned obsolete. The word is of now.
  [[nodiscard]] bool lock() noexcept {
    for (pm::Backoff backoff;; backoff.wait()) {
      if (try_lock()) return true;
      if (is_obsolete(peek())) return false;
    }
  }
  /// K1: takes over a word of the opening `before`; false if somebody else did. Never waits.
  [[nodiscard]] bool take_over(std::uint16_t before, std::uint16_t opening) noexcept {
    PERDURE_ASSERT(before != opening && before != (opening | taking_over));
    if (!number().compare_exchange_strong(before, opening | taking_over, std::memory_order_acquire,
                                          std::memory_order_relaxed))
      return false;
    word_.store(first_word(opening) | locked_bit, std::memory_order_release);
    return true;
  }
  /// Undoes `take_over`.
  void give_back(std::uint16_t before) noexcept {
    word_.store(first_word(before), std::memory_order_release);
  }
  /// For tests: whatever an opening of before may have left.
  void put(std::uint64_t word) noexcept { word_.store(word, std::memory_order_release); }

  void unlock() noexcept { word_.store(next_word(), std::memory_order_release); }
  /// Releases without a change.
  void unlock_unchanged() noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    PERDURE_ASSERT(is_locked(word));
    word_.store(word - locked_bit, std::memory_order_release);
  }
  /// Releases for the last time (K3).
  void unlock_obsolete() noexcept {
    word_.store(next_word() | obsolete_bit, std::memory_order_release);
  }

  /// Recovery before anybody is served only.
  void reset(std::uint16_t opening) noexcept {
    word_.store(first_word(opening), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t below_opening = (std::uint64_t{1} << opening_shift) - 1;

  [[nodiscard]] static std::uint64_t first_word(std::uint16_t opening) noexcept {
    return std::uint64_t{opening} << opening_shift;
  }
  /// Unlocked, the version one further; it comes round without touching the opening.
  [[nodiscard]] std::uint64_t next_word() const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    PERDURE_ASSERT(is_locked(word));
    return (word & ~below_opening) | ((word - locked_bit + version_step) & below_opening);
  }
  /// The upper end of the word. Little-endian, as media are.
  [[nodiscard]] std::atomic_ref<std::uint16_t> number() const noexcept {
    constexpr unsigned at = opening_shift / 16;
    auto* const word = const_cast<std::atomic<std::uint64_t>*>(&word_);
    return std::atomic_ref<std::uint16_t>(reinterpret_cast<std::uint16_t*>(word)[at]);
  }
  [[nodiscard]] bool change(std::uint64_t from, std::uint64_t to) noexcept {
    return word_.compare_exchange_strong(from, to, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> word_;
};
static_assert(sizeof(OpeningLock) == 8);

}  // namespace perdure::roart
