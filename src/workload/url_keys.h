// URLs: long prefixes in common. About 77 bytes on average.
//
//   scheme :// [www.] host / section / [topic /] [year / month /] word-word-word - number
//
// 2048 hosts, with shares proportional to 1 / (rank+1) (Zipf, theta = 1): the first has 12 %. Each
// has 24 sections and 48 topics in each, likewise Zipf-distributed. One host in 16 has http, the
// others https; half have www; 3 in 4 have topics; half have dates, of 10 years with shares
// proportional to 1 / (rank+1), and months as frequent as each other. The page has 3 to 5 words and
// the number that makes it unique. Ids come in random order.
// Absent keys are other pages of the same hosts.
#pragma once

#include "workload/distribution.h"
#include "workload/key_set.h"
#include "workload/permutation.h"

namespace perdure::workload {

class UrlKeys final : public TextKeySet {
 public:
  explicit UrlKeys(std::uint64_t seed) noexcept;

  [[nodiscard]] std::size_t write(std::uint64_t id, char* out) const noexcept override;
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::string_view key) const override;
  [[nodiscard]] std::size_t longest() const noexcept override;

 private:
  std::uint64_t key_;
  Permutation hosts_;  ///< rank -> host
  Zipfian host_ranks_;
  Zipfian section_ranks_;
  Zipfian topic_ranks_;
  Zipfian year_ranks_;
};

}  // namespace perdure::workload
