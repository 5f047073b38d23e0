#include "core/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace perdure {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(std::string_view given, std::span<const std::string> candidates,
                       std::string_view otherwise) {
  constexpr std::size_t near = 2;
  constexpr std::size_t telling_prefix = 3;
  const std::string* best = nullptr;
  std::size_t best_distance = near + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(given, candidate);
    if (given.size() >= telling_prefix && candidate.starts_with(given))
      distance = std::min(distance, near);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::string(otherwise) : "did you mean '" + *best + "'?";
}

}  // namespace perdure
