// Holders: which cores' private caches hold a line (the snoop filter). A flat table with linear
// probing, sized for all lines that the private caches can hold together.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "platform/model/cache_tags.h"

namespace perdure::platform {

/// A set of at most 128 cores.
struct CoreSet {
  std::array<std::uint64_t, 2> words{};

  void add(unsigned core) noexcept { words[core >> 6] |= std::uint64_t{1} << (core & 63); }
  void remove(unsigned core) noexcept { words[core >> 6] &= ~(std::uint64_t{1} << (core & 63)); }
  [[nodiscard]] bool empty() const noexcept { return (words[0] | words[1]) == 0; }
  /// There are two or more.
  [[nodiscard]] bool several() const noexcept {
    const bool both = words[0] != 0 && words[1] != 0;
    return both || ((words[0] & (words[0] - 1)) | (words[1] & (words[1] - 1))) != 0;
  }
  /// Some of them are not in `set`.
  [[nodiscard]] bool beyond(const CoreSet& set) const noexcept {
    return ((words[0] & ~set.words[0]) | (words[1] & ~set.words[1])) != 0;
  }
  [[nodiscard]] CoreSet without(unsigned core) const noexcept {
    CoreSet rest = *this;
    rest.remove(core);
    return rest;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (unsigned word = 0; word < 2; ++word)
      for (std::uint64_t bits = words[word]; bits != 0; bits &= bits - 1)
        visit(word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
  }
};

class Holders {
 public:
  explicit Holders(std::uint64_t lines)
      : slots_(std::bit_ceil(lines * 2 + 16)), shift_(64 - std::countr_zero(slots_.size())) {}

  [[nodiscard]] CoreSet of(LineAddress line) const noexcept {
    const Slot& slot = slots_[find(line)];
    return slot.line == line ? slot.cores : CoreSet{};
  }
  /// Prefetches the line's slot into the host's cache.
  void prefetch_on_host(LineAddress line) const noexcept {
    __builtin_prefetch(&slots_[start(line)], 1);
  }
  void add(LineAddress line, unsigned core) noexcept {
    Slot& slot = slots_[find(line)];
    slot.line = line;
    slot.cores.add(core);
  }
  void remove(LineAddress line, unsigned core) noexcept {
    const std::size_t at = find(line);
    if (slots_[at].line != line) return;
    slots_[at].cores.remove(core);
    if (slots_[at].cores.empty()) erase(at);
  }

 private:
  static constexpr LineAddress nobody = ~LineAddress{0};
  struct Slot {
    LineAddress line = nobody;
    CoreSet cores;
  };

  [[nodiscard]] std::size_t start(LineAddress line) const noexcept {
    return static_cast<std::size_t>(line * 0x9e3779b97f4a7c15ULL >> shift_);
  }
  [[nodiscard]] std::size_t find(LineAddress line) const noexcept {
    std::size_t at = start(line);
    while (slots_[at].line != line && slots_[at].line != nobody)
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  /// Closes the gap, so that no search ends early.
  void erase(std::size_t gap) noexcept {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (gap + 1) & mask; slots_[at].line != nobody; at = (at + 1) & mask) {
      const std::size_t home = start(slots_[at].line);
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = Slot{};
  }

  std::vector<Slot, LargeAllocator<Slot>> slots_;
  int shift_;
};

}  // namespace perdure::platform
