// IPv4 addresses, as integers: few networks hold most of them.
//
// Of the 256 networks of length /8, 35 hold none (0, 10, 127, and 224 to 255). The others are
// ranked in a random order; so are the /16 in a /8, and the /24 in a /16. A network uses, of its
// parts,
//   the /8 of rank r    its first 256 / (r+1)^0.6  of 256 /16
//   the /16 of rank r   its first 256 / (r+1)^0.15 of 256 /24
//   the /24 of rank r         256 / (r+1)^0.1  of 256 addresses
// (rounded down), and every address so used is as likely as any other. That is 147 million
// addresses of 3.7 billion: the largest /8 has 3.9 % of them and the ten largest 19 %; 9 % of the
// /16 hold all. Three quarters are present ids, the others are absent ones. Ids come in random
// order. The exponents are chosen, not measured: they leave room for 110 million records.
#pragma once

#include "workload/key_set.h"
#include "workload/permutation.h"

namespace perdure::workload {

class Ipv4Keys final : public IntegerKeySet {
 public:
  explicit Ipv4Keys(std::uint64_t seed) noexcept;

  [[nodiscard]] std::uint64_t ids() const noexcept override;
  [[nodiscard]] std::uint64_t absent_ids() const noexcept override;
  [[nodiscard]] std::uint64_t word(std::uint64_t id) const noexcept override;
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::uint64_t word) const noexcept override;

 private:
  std::uint64_t key_;
  Permutation order_;     ///< number -> place among all used addresses, network by network
  Permutation networks_;  ///< rank -> one of the /8
};

}  // namespace perdure::workload
