// EndLog: a line on stderr for each connection that ends for a reason, but no flood of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace perdure::server::loop {

class EndLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr unsigned lines_per_second = 10;

  /// Prints "perdure: where: reason". Thread-safe. What is more than `lines_per_second` is counted,
  /// and the number printed before the next line.
  void note(std::string_view where, std::string_view reason);
  /// What `note` prints at that time; empty: nothing. Not thread-safe.
  [[nodiscard]] std::string text_at(Time now, std::string_view where, std::string_view reason);

 private:
  std::mutex mutex_;
  Time second_began_{};
  unsigned lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace perdure::server::loop
