// Server: something that serves one request at a time (a bus, a link, the media).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "platform/model/time.h"

namespace perdure::platform {

/// Requests are served in the order of the calls, which is nearly the order of time. A core that
/// runs ahead reserves a little in the future; the last idle interval is remembered, so that it
/// does not keep an earlier request waiting for nothing.
class Server {
 public:
  /// Takes the server for `occupancy`, no earlier than `from`; returns when it starts.
  Time reserve(Time from, Time occupancy) noexcept {
    if (from + occupancy <= gap_to_) {
      const Time start = std::max(from, gap_from_);
      if (start + occupancy <= gap_to_) {
        if (start - gap_from_ > gap_to_ - start - occupancy)
          gap_to_ = start;
        else
          gap_from_ = start + occupancy;
        return start;
      }
    }
    const Time start = std::max(from, busy_until_);
    if (start > busy_until_) {
      gap_from_ = busy_until_;
      gap_to_ = start;
    }
    busy_until_ = start + occupancy;
    return start;
  }

  [[nodiscard]] Time busy_until() const noexcept { return busy_until_; }
  /// Work that others put in front of everything not yet started.
  void delay(Time from, Time occupancy) noexcept {
    busy_until_ = std::max(busy_until_, from) + occupancy;
  }

 private:
  Time busy_until_ = 0;
  Time gap_from_ = 0, gap_to_ = 0;
};

/// A link whose users reserve it for moments further or less far ahead, in no order: its capacity
/// is kept per interval of 16 ns, so that a late reservation never delays an earlier one.
class Lane {
 public:
  Lane() : used_(buckets, 0), number_(buckets, 0) {}

  /// Takes `occupancy` (at most an interval) no earlier than `from`; returns when it starts.
  Time reserve(Time from, Time occupancy) noexcept {
    for (std::uint64_t number = from / width;; ++number) {
      const std::size_t at = number % buckets;
      if (number_[at] != number) {
        number_[at] = number;
        used_[at] = 0;
      }
      if (used_[at] + occupancy > width) continue;
      const Time start = std::max(from, number * width + used_[at]);
      used_[at] += occupancy;
      return start;
    }
  }

 private:
  static constexpr std::size_t buckets = 1 << 12;
  static constexpr Time width = 16 * ns;
  std::vector<Time> used_;
  std::vector<std::uint64_t> number_;
};

/// Nanoseconds of a platform's file as Time.
[[nodiscard]] inline Time from_ns(double nanoseconds) noexcept {
  return static_cast<Time>(nanoseconds * 1000.0 + 0.5);
}

}  // namespace perdure::platform
