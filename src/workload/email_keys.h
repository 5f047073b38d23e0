// E-mail addresses: 25 bytes on average, distinguished at the front; few domains have most of them.
//
//   given [.|_|-] family [number] @ domain
//
// Names: 64 given names, 256 family names and 3 separators, each as frequent. Domains: 256, with
// shares proportional to 1 / (rank+1) (Zipf, theta = 1), in steps of 1/4096: the first has 16 %. A
// name that a domain has already gets the next number; as each name takes the domains in a random
// order, most numbers are of one to three digits.
// Ids come in random order. Absent keys are the addresses that would have come between.
#pragma once

#include "workload/bijection.h"
#include "workload/key_set.h"
#include "workload/permutation.h"

namespace perdure::workload {

class EmailKeys final : public TextKeySet {
 public:
  explicit EmailKeys(std::uint64_t seed) noexcept;

  [[nodiscard]] std::size_t write(std::uint64_t id, char* out) const noexcept override;
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::string_view key) const override;
  [[nodiscard]] std::size_t longest() const noexcept override;

 private:
  [[nodiscard]] SmallShuffle turns_of(std::uint64_t name) const noexcept;

  std::uint64_t key_;
  Permutation names_;
  Permutation domains_;  ///< rank -> domain
};

}  // namespace perdure::workload
