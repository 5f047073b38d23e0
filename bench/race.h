// Contestants that take turns in slices of one run, so that a drift of the machine's speed affects
// all; what is compared are medians of ratios within a turn.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace perdure::bench {

using Clock = std::chrono::steady_clock;

struct Contestant {
  std::string name;
  std::function<double()> slice;  ///< ns per operation
  std::vector<double> ns{};       ///< a slice each
};

inline double median_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

inline double ns_each(Clock::time_point start, std::uint64_t operations) {
  const std::chrono::duration<double, std::nano> took = Clock::now() - start;
  return took.count() / static_cast<double>(operations);
}

inline void race(const char* title, std::vector<Contestant>& list, unsigned turns) {
  for (Contestant& contestant : list) (void)contestant.slice();  // pages and caches
  for (unsigned turn = 0; turn < turns; ++turn)
    for (std::size_t i = 0; i < list.size(); ++i) {
      Contestant& contestant = list[(i + turn) % list.size()];
      contestant.ns.push_back(contestant.slice());
    }
  std::printf("%s\n", title);
  for (const Contestant& contestant : list)
    std::printf("  %-28s %8.1f ns\n", contestant.name.c_str(), median_of(contestant.ns));
}

/// Median over the turns of one's time by the other's.
inline double ratio_of(const Contestant& one, const Contestant& other) {
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < one.ns.size(); ++turn)
    ratios.push_back(one.ns[turn] / other.ns[turn]);
  return median_of(ratios);
}

inline void verdict(const char* what, double ratio, double bound, bool at_least) {
  const bool holds = at_least ? ratio >= bound : ratio <= bound;
  std::printf("  %-44s %5.2f  %s %.2f  %s\n", what, ratio, at_least ? "at least" : "at most", bound,
              holds ? "ok" : "MISSED");
}

}  // namespace perdure::bench
