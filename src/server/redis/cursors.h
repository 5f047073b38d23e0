// Cursors: SCAN's numbers and the positions that they stand for.
//
// A client may go on with a cursor on another connection, or twice; so the table is the server's,
// and a number keeps its meaning until `kept` newer ones are made. A number that has lost it, or is
// of an earlier server, is an error and not a wrong position: numbers begin at random.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perdure::server::redis {

class Cursors {
 public:
  static constexpr std::size_t kept = 4096;

  /// `first` is the first number, not 0.
  explicit Cursors(std::uint64_t first) : first_(first), next_(first) {}

  /// A number for `position`, never 0.
  [[nodiscard]] std::uint64_t add(std::string_view position) {
    const std::lock_guard lock(mutex_);
    if (positions_.size() < kept) positions_.resize(positions_.size() + 1);
    positions_[(next_ - first_) % kept] = position;
    return next_++;
  }
  [[nodiscard]] std::optional<std::string> find(std::uint64_t cursor) const {
    const std::lock_guard lock(mutex_);
    if (cursor < first_ || cursor >= next_ || next_ - cursor > kept) return {};
    return positions_[(cursor - first_) % kept];
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> positions_;
  std::uint64_t first_;
  std::uint64_t next_;
};

}  // namespace perdure::server::redis
