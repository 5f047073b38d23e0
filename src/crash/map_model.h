// MapModel: what one thread's operations make of a map, and whether their answers are right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "crash/subject.h"

namespace perdure::crash {

class MapModel {
 public:
  MapModel(const Vocabulary& vocabulary, std::vector<std::uint64_t> stamps)
      : vocabulary_(vocabulary), stamps_(std::move(stamps)) {}

  /// Takes the operation over, unless it was refused. Empty, or why its answer is wrong.
  [[nodiscard]] std::string take(const Operation& operation, const Answer& answer);
  /// Empty, or a key that is not what the operations made it.
  [[nodiscard]] std::string compare(std::span<const std::uint64_t> stamps) const;

 private:
  const Vocabulary& vocabulary_;
  std::vector<std::uint64_t> stamps_;
};

/// An operation that a key is given to, other than a scan; `number` makes its stamp.
[[nodiscard]] Operation draw_operation(Rng& rng, std::uint16_t keys, std::uint64_t number);

}  // namespace perdure::crash
