#include "index/linetree/sound_leaf.h"

#include <cstring>

#include "pm/simd.h"

namespace perdure::linetree {
namespace {

/// `place_of` for a bound of 32 bits, which a vector has instructions for: with the halves h and l
/// of `mixed`, mixed * bound >> 64 is (h * bound + (l * bound >> 32)) >> 32.
constexpr std::uint64_t narrow_place(std::uint64_t mixed, std::uint64_t bound) noexcept {
  return ((mixed >> 32) * bound + ((mixed & 0xffffffff) * bound >> 32)) >> 32;
}

/// A leaf's keys, and what became of them. Loops over the slots have no branches.
struct Slots {
  alignas(64) std::array<std::uint64_t, most_slots> key;
  alignas(64) std::array<std::uint64_t, most_slots> distinct;  ///< the live keys; others are unlike
  alignas(64) std::array<std::uint8_t, most_slots> home;
  alignas(64) std::array<std::uint8_t, most_slots> away;  ///< 1: live, and not in its home line
};

struct Found {
  std::uint64_t wrong = 0;
  std::uint64_t count = 0;
};

[[gnu::always_inline]] inline Found place_all(const Shape& shape, Interval live,
                                              Slots& slots) noexcept {
  const std::uint64_t slot_count = shape.slots();
  const std::uint64_t lines = shape.lines;
  const std::uint64_t empty = empty_key(live.least);
  const std::uint64_t span = live.last - live.least;
  Found found;
  for (std::uint64_t i = 0; i < slot_count; ++i) {
    const std::uint64_t key = slots.key[i];
    const std::uint64_t mixed = mix64(key);
    const std::uint64_t home = (narrow_place(mixed, slot_count - 1) + 1) / line_slots;
    const std::uint64_t step = narrow_place(std::rotl(mixed, 32), lines - 1) + 1;
    const std::uint64_t line = i / line_slots;
    const std::uint64_t held = key - live.least <= span ? 1 : 0;
    const std::uint64_t away = home != line ? held : 0;
    const std::uint64_t misplaced = (home ^ step) != line ? away : 0;
    const std::uint64_t may_stay = key > live.last || key == empty ? 1 : 0;
    found.count += held;
    found.wrong |= misplaced | (1 ^ (held | may_stay));
    slots.distinct[i] = held != 0 ? key : live.last + 1 + i;
    slots.home[i] = static_cast<std::uint8_t>(home);
    slots.away[i] = static_cast<std::uint8_t>(away);
  }
  for (std::uint64_t i = 0; i < slot_count; i += line_slots) {
    const std::uint64_t* const at = &slots.distinct[i];
    const bool twice = (at[0] == at[1]) | (at[0] == at[2]) | (at[0] == at[3]) | (at[1] == at[2]) |
                       (at[1] == at[3]) | (at[2] == at[3]);
    found.wrong |= std::uint64_t{twice};
  }
  return found;
}

[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,bmi,popcnt")]] Found place_all_avx512(
    const Shape& shape, Interval live, Slots& slots) noexcept {
  return place_all(shape, live, slots);
}

[[gnu::target("avx2,bmi,popcnt")]] Found place_all_avx2(const Shape& shape, Interval live,
                                                        Slots& slots) noexcept {
  return place_all(shape, live, slots);
}

Found place_all_plain(const Shape& shape, Interval live, Slots& slots) noexcept {
  return place_all(shape, live, slots);
}

}  // namespace

std::optional<Summary> summarize_sound(const Shape& shape, const Leaf& leaf,
                                       Interval live) noexcept {
  Slots slots;
  slots.key[no_slot] = empty_key(live.least);
  for (unsigned i = 1; i < shape.slots(); ++i) slots.key[i] = leaf.key_word(i);
  const auto place = pm::detail::simd_level == pm::SimdLevel::avx512 ? place_all_avx512
                     : pm::detail::simd_level == pm::SimdLevel::avx2 ? place_all_avx2
                                                                     : place_all_plain;
  Found found = place(shape, live, slots);
  Summary summary{.hints = 0, .count = static_cast<std::uint32_t>(found.count)};
  for (unsigned i = 0; i < shape.slots(); i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, &slots.away[i], sizeof eight);
    for (; eight != 0; eight &= eight - 1) {
      const unsigned slot = i + static_cast<unsigned>(std::countr_zero(eight)) / 8;
      const unsigned home = slots.home[slot];
      const std::uint64_t* const there = &slots.distinct[home * line_slots];
      const std::uint64_t key = slots.key[slot];
      summary.hints |= line_bit(home);
      const bool is_there =
          (there[0] == key) | (there[1] == key) | (there[2] == key) | (there[3] == key);
      found.wrong |= std::uint64_t{is_there};
    }
  }
  if (found.wrong != 0) return std::nullopt;
  return summary;
}

}  // namespace perdure::linetree
