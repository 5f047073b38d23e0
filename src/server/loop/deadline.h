// Deadline: how long a client may take for one request, or for reading replies.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace perdure::server::loop {

/// Passes `timeout` after its start, and later by a second for each `bytes_per_second` that came
/// through, but not later than `timeout` after the last of them: so long transfers over slow links
/// are fine, and a byte now and then is not.
class Deadline {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::uint64_t bytes_per_second = 128U << 10;

  void start(Time now) noexcept { began_ = now; }
  void stop() noexcept { began_.reset(); }
  void note(Time now, std::uint64_t bytes) noexcept {
    if (!began_) return;
    constexpr std::uint64_t nanoseconds = 1'000'000'000;
    began_ =
        std::min(now, *began_ + std::chrono::nanoseconds(bytes * nanoseconds / bytes_per_second));
  }
  [[nodiscard]] bool is_running() const noexcept { return began_.has_value(); }
  [[nodiscard]] bool has_passed(Time now, std::chrono::milliseconds timeout) const noexcept {
    return began_ && now - *began_ > timeout;
  }

 private:
  std::optional<Time> began_;
};

}  // namespace perdure::server::loop
