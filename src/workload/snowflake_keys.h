// Snowflake ids: unique without a coordinator, and nearly in the order of time.
//
//   bit 63  62 .. 22                    21 .. 12  11 .. 0
//       | 0 | milliseconds since epoch | machine | sequence |
//
// Arrivals: 8 ids in a millisecond on average (8000 a second), as of a Poisson process of which the
// count in every 4 ms is 32. A fleet of 32 machines serves them, each id by a random one; a machine
// numbers its ids of one millisecond from 0. Within a millisecond the order of ids is that of
// arrival and not that of keys, as it is for a consumer of such ids.
// Absent keys are those of another 32 machines at the same times.
// The clock begins between one and three years after the epoch, by the seed.
#pragma once

#include "core/rng.h"
#include "workload/bijection.h"
#include "workload/key_set.h"

namespace perdure::workload {

class SnowflakeKeys final : public IntegerKeySet {
 public:
  explicit SnowflakeKeys(std::uint64_t seed) noexcept;

  [[nodiscard]] std::uint64_t ids() const noexcept override { return std::uint64_t{1} << 43; }
  [[nodiscard]] std::uint64_t word(std::uint64_t id) const noexcept override;
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::uint64_t word) const noexcept override;

  static constexpr unsigned time_shift = 22;
  static constexpr unsigned machine_shift = 12;
  static constexpr unsigned machine_bits = 10;
  static constexpr std::uint64_t fleet = 32;
  static constexpr std::uint64_t ids_per_ms = 8;

 private:
  /// The arrivals [begin, end) of one millisecond after first_ms_.
  struct Millisecond {
    std::uint64_t ms;
    std::uint64_t begin;
    std::uint64_t end;
  };
  [[nodiscard]] Millisecond of_time(std::uint64_t ms) const noexcept;
  [[nodiscard]] Millisecond of_arrival(std::uint64_t number) const noexcept;
  [[nodiscard]] std::uint64_t server_of(std::uint64_t number) const noexcept {
    return mix64(number ^ key_) % fleet;
  }

  std::uint64_t key_;
  std::uint64_t first_ms_;
  SmallShuffle machines_;
};

}  // namespace perdure::workload
