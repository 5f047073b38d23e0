// Clustered integers: bursts of neighbouring keys at random places, as of counters that several
// writers draw ranges from, or of records keyed by (customer, number).
//
// Each 1024 ids are cut into runs by halving: a piece is halved with probability 1/2, and so are
// its halves, down to 1. So the runs of length 1024, 512, 256, ... 2 are equally many, those of 1
// are twice as many; half of the keys are in runs of 1024, a quarter in runs of 512, and so on. A
// run is dense and ascending in id order. Its base is random:
//
//   63 .. 11             10 .. 0
//   | place of the run | start within it + offset in the run |
//
// Absent keys are in runs of their own, with the same lengths.
#pragma once

#include "workload/key_set.h"
#include "workload/permutation.h"

namespace perdure::workload {

class ClusteredKeys final : public IntegerKeySet {
 public:
  explicit ClusteredKeys(std::uint64_t seed) noexcept;

  [[nodiscard]] std::uint64_t ids() const noexcept override { return std::uint64_t{1} << 52; }
  [[nodiscard]] std::uint64_t word(std::uint64_t id) const noexcept override;
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::uint64_t word) const noexcept override;

  static constexpr std::uint64_t longest_run = 1024;

 private:
  struct Run {
    std::uint64_t first;  ///< the lowest of its ids
    std::uint64_t length;
  };
  [[nodiscard]] Run run_of(std::uint64_t number) const noexcept;
  [[nodiscard]] std::uint64_t start_of(const Run& run) const noexcept;

  std::uint64_t key_;
  Permutation places_;
};

}  // namespace perdure::workload
