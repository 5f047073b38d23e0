// Slot: where a structure keeps a value: as much room whatever the value's length, as in the study.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "index/index.h"

namespace perdure::structure {

struct Slot {
  std::uint64_t bytes;
  std::array<char, max_slot_value_bytes> text;

  [[nodiscard]] std::string_view value() const noexcept { return {text.data(), bytes}; }
  void write(std::string_view value) noexcept {
    bytes = value.size();
    if (!value.empty()) std::memcpy(text.data(), value.data(), value.size());
  }
  /// What `write` changes, from the start of the slot.
  [[nodiscard]] static std::size_t written_bytes(std::string_view value) noexcept {
    return offsetof(Slot, text) + value.size();
  }
  /// False: media are damaged.
  [[nodiscard]] bool is_sound() const noexcept { return bytes <= max_slot_value_bytes; }
};
static_assert(sizeof(Slot) == slot_bytes);

}  // namespace perdure::structure
