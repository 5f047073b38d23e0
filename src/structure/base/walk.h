// Walk: what goes over every block of a structure, and why: to tell the heap after a restart, to
// check, or to free it all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"

namespace perdure::structure {

[[nodiscard]] inline Error corrupt(std::string what) {
  return {ErrorCode::corrupt, std::move(what), "", "restore the pool from a copy"};
}

/// A structure's `walk` enters every block through its ref before it reads it, and counts records.
template <class Memory>
class Walk {
 public:
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  enum class Purpose : std::uint8_t {
    recover,  ///< media may be damaged: every ref is judged, and the block marked in the heap
    check,    ///< no more blocks than are live, so that a circle ends
    collect,  ///< to be freed
  };
  Walk(const Memory& memory, Purpose purpose)
      : memory_(memory), purpose_(purpose), most_(memory.live_blocks()) {}

  /// Null: the ref leads nowhere it may lead.
  template <class T>
  [[nodiscard]] T* enter(Ref<T> ref, std::size_t bytes = sizeof(T)) {
    ++blocks_;
    if constexpr (Memory::recovers)
      if (purpose_ == Purpose::recover) return memory_.template admit<T>(ref, bytes);
    if (blocks_ > most_) return nullptr;
    T* const node = memory_.at(ref);
    if (purpose_ == Purpose::collect) collected_.emplace_back(node, bytes);
    return node;
  }
  /// A node that tells its size itself, once `least` bytes of it can be read; 0: it makes no sense.
  template <class T, class Size>
  [[nodiscard]] T* enter_sized(Ref<T> ref, std::size_t least, Size&& size) {
    const T* node = nullptr;
    if constexpr (Memory::recovers)
      if (purpose_ == Purpose::recover) node = memory_.peek(ref, least);
    if (purpose_ != Purpose::recover && blocks_ < most_) node = memory_.at(ref);
    const std::size_t bytes = node == nullptr ? 0 : size(*node);
    return bytes == 0 ? nullptr : enter<T>(ref, bytes);
  }
  void count_record() noexcept { ++records_; }
  [[nodiscard]] bool recovers() const noexcept { return purpose_ == Purpose::recover; }

  [[nodiscard]] std::uint64_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::uint64_t records() const noexcept { return records_; }
  [[nodiscard]] const std::vector<std::pair<void*, std::size_t>>& collected() const noexcept {
    return collected_;
  }

 private:
  const Memory& memory_;
  Purpose purpose_;
  std::uint64_t most_;
  std::uint64_t blocks_ = 0;
  std::uint64_t records_ = 0;
  std::vector<std::pair<void*, std::size_t>> collected_;
};

}  // namespace perdure::structure
