// Pointers on media: 8-byte pool offsets, valid at any address where the pool is mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace perdure {

/// Offset 0 is the pool header, so it serves as null.
inline constexpr std::uint64_t null_offset = 0;

namespace pm {

/// A typed pool offset. Trivially copyable, 8 bytes, failure-atomic when aligned.
template <class T>
struct ptr {
  std::uint64_t offset = null_offset;

  [[nodiscard]] T* in(std::byte* base) const noexcept {
    return offset == null_offset ? nullptr : reinterpret_cast<T*>(base + offset);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return offset != null_offset; }
  friend bool operator==(ptr, ptr) = default;

  [[nodiscard]] static ptr to(const T* object, const std::byte* base) noexcept {
    if (object == nullptr) return {};
    return {static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(object) - base)};
  }
};

static_assert(sizeof(ptr<int>) == 8);

}  // namespace pm
}  // namespace perdure
