// Progress: one live line on stderr while a run lasts, when a person is watching.
#pragma once

#include <string_view>

namespace perdure::driver {

class Progress {
 public:
  /// Shows nothing when `quiet` or when stderr is not a terminal.
  explicit Progress(bool quiet) noexcept;
  /// Leaves an empty line behind.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `share` of the phase done, 0 to 1 (negative: unknown); `rate` in operations per second.
  void show(std::string_view phase, double share, double rate_ops_s);
  void clear();

 private:
  bool on_;
  bool dirty_ = false;
};

}  // namespace perdure::driver
