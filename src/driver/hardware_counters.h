// What the processor counted while a thread ran operations: cycles, instructions, misses.
//
// C1  A counter counts the thread that made it, in user mode, between `resume` and `pause`. Threads
//     of an index are not counted.
// C2  A counter that the system does not have is absent, and `missing` says why.
// C3  Of more counters than the processor has at a time, the kernel counts each for a part of the
//     time; such values are scaled to all of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "pool/file.h"

namespace perdure::driver {

struct HardwareCounts {
  /// Names in a run record.
  static constexpr std::array<const char*, 6> names = {
      "cycles", "instructions", "llc_misses", "branch_misses", "dtlb_misses", "page_faults"};

  std::array<std::optional<std::uint64_t>, names.size()> values;
  std::string missing;  ///< why some are absent; empty: none is
};

/// Of all threads, of which there is at least one. What one of them lacks is absent.
[[nodiscard]] HardwareCounts sum_of(std::span<const HardwareCounts> threads);

class HardwareCounters {
 public:
  /// For the calling thread, paused. Cost: a system call for each counter.
  HardwareCounters();

  /// On that thread. Cost of each: a system call.
  void resume() noexcept;
  void pause() noexcept;

  [[nodiscard]] HardwareCounts read() const;

 private:
  std::array<File, HardwareCounts::names.size()> files_;
  std::array<int, HardwareCounts::names.size()> errors_{};  ///< of those that could not be opened
  bool any_ = false;
};

[[nodiscard]] nlohmann::ordered_json record_of(const HardwareCounts& counts);

}  // namespace perdure::driver
