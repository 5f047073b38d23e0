// Refs: how a node leads to another: a plain pointer in volatile memory; on media libpmemobj's
// 16-byte object ids, as the study has them, or 8-byte pool offsets.
//
// R1  a ref on media changes only in `offset`, one failure-atomic word: an object id has its pool's
//     number from when its node was made, null or not.
// R2  to make a node initialises no ref: it may be of a size that does not hold them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace perdure::structure {

template <class T>
struct PlainRef {
  using Target = T;
  T* target;
  [[nodiscard]] explicit operator bool() const noexcept { return target != nullptr; }
  friend bool operator==(PlainRef, PlainRef) = default;
};

template <class T>
struct OffsetRef {
  using Target = T;
  std::uint64_t offset;
  [[nodiscard]] explicit operator bool() const noexcept { return offset != 0; }
  friend bool operator==(OffsetRef, OffsetRef) = default;
};

template <class T>
struct ObjectRef {
  using Target = T;
  std::uint64_t pool_id;
  std::uint64_t offset;
  [[nodiscard]] explicit operator bool() const noexcept { return offset != 0; }
  friend bool operator==(ObjectRef a, ObjectRef b) noexcept { return a.offset == b.offset; }
};

/// A ref with a copy beside it of the key it leads to, so that a search does not have to follow it
/// to learn that it leads too far. The copy says nothing on media: recovery writes it anew.
template <class R>
struct KeyedRef {
  R to;
  std::uint64_t key;
  [[nodiscard]] explicit operator bool() const noexcept { return bool{to}; }
};

static_assert(std::is_trivially_default_constructible_v<PlainRef<int>> &&
              std::is_trivially_default_constructible_v<OffsetRef<int>> &&
              std::is_trivially_default_constructible_v<ObjectRef<int>>);  // R2
static_assert(sizeof(PlainRef<int>) == 8 && sizeof(OffsetRef<int>) == 8);
static_assert(sizeof(ObjectRef<int>) == 16 && offsetof(ObjectRef<int>, offset) == 8);
// One range from `offset` on, for a log.
static_assert(offsetof(KeyedRef<OffsetRef<int>>, key) == 8);
static_assert(offsetof(KeyedRef<ObjectRef<int>>, key) == 16);

/// What a persistent memory is a template over.
struct Offsets {
  template <class T>
  using Ref = OffsetRef<T>;
};
struct ObjectIds {
  template <class T>
  using Ref = ObjectRef<T>;
};

/// Bytes that a change is about to store to.
struct Range {
  const void* begin;
  std::size_t bytes;
};
template <class T>
[[nodiscard]] Range range(const T* begin, std::size_t count) noexcept {
  return {begin, count * sizeof(T)};
}

/// Thrown by a change that finds no room, caught by the operation that began it, which returns
/// Outcome::out_of_space.
struct NoRoom {};

}  // namespace perdure::structure
