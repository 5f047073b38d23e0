// TextRecord: a byte-string record of the volatile references, key and value in one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include "index/reference/arena_allocator.h"

namespace perdure {

/// Immutable: an update makes a new one. The key's bytes follow, then the value's.
struct TextRecord {
  const std::uint32_t key_bytes;
  const std::uint32_t value_bytes;

  [[nodiscard]] static TextRecord* make(StripedArena& arena, std::string_view key,
                                        std::string_view value) {
    void* const memory = arena.allocate(sizeof(TextRecord) + key.size() + value.size());
    auto* const record = new (memory) TextRecord{static_cast<std::uint32_t>(key.size()),
                                                 static_cast<std::uint32_t>(value.size())};
    char* const text = reinterpret_cast<char*>(record + 1);
    if (!key.empty()) std::memcpy(text, key.data(), key.size());
    if (!value.empty()) std::memcpy(text + key.size(), value.data(), value.size());
    return record;
  }
  static void free(StripedArena& arena, TextRecord* record) noexcept {
    if (record != nullptr) arena.free(record, record->bytes());
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    return sizeof *this + key_bytes + value_bytes;
  }
  [[nodiscard]] std::string_view key() const noexcept {
    return {reinterpret_cast<const char*>(this + 1), key_bytes};
  }
  [[nodiscard]] std::string_view value() const noexcept {
    return {reinterpret_cast<const char*>(this + 1) + key_bytes, value_bytes};
  }
};

}  // namespace perdure
