// LineWriter: writes to media front to back, durable after the next fence. Whole lines go past the
// caches, so that none is read first; what is left at the end is stored and flushed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "pm/pm.h"

namespace perdure::engine {

class LineWriter {
 public:
  /// `to`: aligned to a line.
  explicit LineWriter(std::byte* to) noexcept : to_(to) {}

  void append(const void* from, std::size_t bytes) noexcept {
    if (bytes == 0) return;  // `from` may be null
    const auto* at = static_cast<const std::byte*>(from);
    if (filled_ != 0) {
      const std::size_t piece = std::min(bytes, line_.size() - filled_);
      std::memcpy(line_.data() + filled_, at, piece);
      filled_ += piece;
      at += piece;
      bytes -= piece;
      if (filled_ < line_.size()) return;
      stream(line_.data(), line_.size());
      filled_ = 0;
    }
    const std::size_t whole = bytes / line_.size() * line_.size();
    stream(at, whole);
    filled_ = bytes - whole;
    std::memcpy(line_.data(), at + whole, filled_);
  }
  /// Once, after the last append.
  void end() noexcept {
    std::memcpy(to_, line_.data(), filled_);
    pm::flush(to_, filled_);
  }

 private:
  void stream(const std::byte* from, std::size_t bytes) noexcept {
    pm::stream(to_, from, bytes);
    to_ += bytes;
  }

  std::byte* to_;
  std::array<std::byte, pm::cache_line_bytes> line_{};
  std::size_t filled_ = 0;
};

}  // namespace perdure::engine
