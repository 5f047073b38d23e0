// InputBuffer: what was received and not yet taken, in one piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "core/assert.h"

namespace perdure::server::loop {

class InputBuffer {
 public:
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] std::string_view view() const noexcept { return {memory_.get() + begin_, size()}; }

  /// Room behind the content: as much again as there is, so that a long request is moved seldom.
  [[nodiscard]] std::span<char> prepare() {
    const std::size_t room = std::clamp(size(), least_room, most_room);
    if (capacity_ - end_ < least_room) {
      if (capacity_ - size() < room) {
        const std::size_t wanted = 2 * size() + room;
        auto larger = std::make_unique_for_overwrite<char[]>(wanted);
        if (!empty()) std::memcpy(larger.get(), memory_.get() + begin_, size());
        memory_ = std::move(larger);
        capacity_ = wanted;
      } else if (!empty()) {
        std::memmove(memory_.get(), memory_.get() + begin_, size());
      }
      end_ = size();
      begin_ = 0;
    }
    return {memory_.get() + end_, std::min(capacity_ - end_, most_room)};
  }
  /// So many bytes were received there.
  void commit(std::size_t bytes) noexcept {
    PERDURE_ASSERT(bytes <= capacity_ - end_);
    end_ += bytes;
  }
  /// So many bytes at the beginning are done with.
  void take(std::size_t bytes) noexcept {
    PERDURE_ASSERT(bytes <= size());
    begin_ += bytes;
    if (!empty()) return;
    begin_ = end_ = 0;
    if (capacity_ > kept_bytes) {
      memory_.reset();
      capacity_ = 0;
    }
  }

 private:
  static constexpr std::size_t least_room = 16U << 10;
  static constexpr std::size_t most_room = 1U << 20;
  static constexpr std::size_t kept_bytes = 256U << 10;

  std::unique_ptr<char[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace perdure::server::loop
