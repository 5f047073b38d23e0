#include "index/lbtree/leaf.h"

#include <new>

#include "core/assert.h"

namespace perdure::lbtree {
namespace {

/// Slots 3..13 by cache line; line 0 is `Leaf::line_0`.
struct Line {
  unsigned first;
  std::uint32_t mask;
};
constexpr std::array<Line, 3> lines{{{3, 0b1111}, {7, 0b1111}, {11, 0b111}}};

/// Bits set in a number below 16; a table, because portable builds have no instruction for it.
constexpr unsigned bits_in(std::uint32_t nibble) noexcept {
  return static_cast<unsigned>(0x4332322132212110ULL >> (4 * nibble) & 0xf);
}
static_assert(bits_in(0b1111) == 4 && bits_in(0b0101) == 2 && bits_in(0b1000) == 1);

}  // namespace

void Leaf::format(std::uint64_t successor) noexcept {
  new (this) Leaf;
  for (auto& word : header) word.store(0, std::memory_order_relaxed);
  for (LeafRecord& one : record) one.store({});
  sibling[0].store(successor, std::memory_order_relaxed);
  sibling[1].store(null_offset, std::memory_order_relaxed);
}

Placement Leaf::place(std::uint32_t free) noexcept {
  PERDURE_ASSERT(free != 0);
  Placement placement;
  placement.slot = static_cast<unsigned>(std::countr_zero(free));
  if ((free & line_0) != 0) return placement;

  std::uint32_t room = 0;
  unsigned first = 0;
  for (const Line& line : lines) {
    const std::uint32_t here = free >> line.first & line.mask;
    if (bits_in(here) <= bits_in(room)) continue;
    room = here;
    first = line.first;
  }
  placement.slot = first + static_cast<unsigned>(std::countr_zero(room));
  room &= room - 1;
  for (unsigned from = 0; room != 0 && from < placement.from.size(); ++from, room &= room - 1) {
    placement.from[from] = static_cast<std::uint8_t>(from);
    placement.to[from] =
        static_cast<std::uint8_t>(first + static_cast<unsigned>(std::countr_zero(room)));
    ++placement.moves;
  }
  return placement;
}

Header Leaf::fill(const Header& now, const Placement& placement, RecordWords words,
                  std::uint8_t fingerprint) noexcept {
  Header next = now;
  record[placement.slot].store(words);
  next.add(placement.slot, fingerprint);
  for (unsigned i = 0; i < placement.moves; ++i) {
    record[placement.to[i]].store(record[placement.from[i]].load());
    next.add(placement.to[i], now.fingerprint(placement.from[i]));
    next.drop(1U << placement.from[i]);
  }
  // All written records share one line: a placement never mixes lines.
  if (placement.slot >= lines[0].first) pm::flush(&record[placement.slot], sizeof(LeafRecord));
  return next;
}

}  // namespace perdure::lbtree
