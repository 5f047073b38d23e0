// Server: something that serves one request at a time (a bus, a link, the media).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "platform/model/time.h"

namespace perdure::platform {

/// Requests come nearly in the order of time: a core whose loads depend on one another reserves
/// times up to microseconds ahead. The last idle intervals are remembered, so that a late
/// reservation delays no earlier request.
class Server {
 public:
  /// Takes the server for `occupancy`, no earlier than `from`; returns when it starts.
  Time reserve(Time from, Time occupancy) noexcept {
    if (from >= busy_until_) {
      append(from, occupancy);
      return from;
    }
    for (unsigned i = first_after(from); i != count_; ++i) {
      const Idle idle = at(i);
      const Time start = std::max(from, idle.from);
      if (start + occupancy > idle.to) continue;
      cut(i, start, start + occupancy);
      return start;
    }
    const Time start = busy_until_;
    busy_until_ += occupancy;
    return start;
  }

  /// The first moment no earlier than `from` at which nothing is served.
  [[nodiscard]] Time free_from(Time from) const noexcept {
    if (from >= busy_until_) return from;
    const unsigned i = first_after(from);
    return i == count_ ? busy_until_ : std::max(from, at(i).from);
  }

  /// Work from `from` on that others put in front of everything not yet started.
  void delay(Time from, Time occupancy) noexcept {
    busy_until_ = std::max(busy_until_, from) + occupancy;
  }

  [[nodiscard]] Time busy_until() const noexcept { return busy_until_; }

 private:
  struct Idle {
    Time from, to;
  };
  static constexpr unsigned remembered = 16;

  [[nodiscard]] Idle& at(unsigned i) noexcept { return idle_[(oldest_ + i) % remembered]; }
  [[nodiscard]] const Idle& at(unsigned i) const noexcept {
    return idle_[(oldest_ + i) % remembered];
  }
  /// The first idle interval that ends after `from`; they lie in order of time.
  [[nodiscard]] unsigned first_after(Time from) const noexcept {
    unsigned i = count_;
    while (i != 0 && at(i - 1).to > from) --i;
    return i;
  }
  void append(Time from, Time occupancy) noexcept {
    if (from > busy_until_) {
      if (count_ == remembered) drop_oldest();
      at(count_++) = {busy_until_, from};
    }
    busy_until_ = from + occupancy;
  }
  void drop_oldest() noexcept {
    oldest_ = (oldest_ + 1) % remembered;
    --count_;
  }
  /// Takes [from, to) out of interval `i`.
  void cut(unsigned i, Time from, Time to) noexcept {
    const Idle idle = at(i);
    const bool before = from > idle.from, after = to < idle.to;
    if (before && after) {
      if (count_ == remembered) {
        drop_oldest();
        if (i == 0) {  // it was the oldest: the time after the request remains
          insert(0, {to, idle.to});
          return;
        }
        --i;
      }
      at(i).to = from;
      insert(i + 1, {to, idle.to});
    } else if (before) {
      at(i).to = from;
    } else if (after) {
      at(i).from = to;
    } else {
      for (--count_; i != count_; ++i) at(i) = at(i + 1);
    }
  }
  void insert(unsigned place, Idle idle) noexcept {
    for (unsigned i = count_++; i != place; --i) at(i) = at(i - 1);
    at(place) = idle;
  }

  Time busy_until_ = 0;
  unsigned oldest_ = 0, count_ = 0;
  std::array<Idle, remembered> idle_{};
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
