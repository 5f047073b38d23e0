// The probes: the points that each consists of, and their names and titles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probe/point.h"

namespace perdure::probe {

struct Probe {
  const char* name;   ///< "I2", "bandwidth"
  const char* title;  ///< one line
};

/// Every probe that `perdure probe NAME` knows, in the order of `all`.
[[nodiscard]] const std::vector<Probe>& probes();

/// What a user may set; an empty list or optional means "as the probe has it".
struct Settings {
  std::vector<Memory> memories;
  std::vector<Op> ops;
  std::vector<Pattern> patterns;
  std::vector<std::uint64_t> sizes;
  std::vector<unsigned> threads;
  std::vector<std::uint64_t> regions;
  std::vector<double> hit_ratios;
  std::vector<double> mix_reads;
  std::optional<std::uint64_t> stride_bytes;
  std::optional<unsigned> readers;
  std::optional<std::uint64_t> align_bytes;
  std::optional<FenceInterval> fence_every;
  std::optional<double> op_cost_ns;
  std::optional<bool> op_cost_overlaps;
  std::optional<bool> op_state;
  std::optional<Node> node;
  std::optional<unsigned> dimms;
  std::optional<bool> prefetch;
  std::optional<pm::Durability> durability;
  std::optional<Variant> variant;
  std::optional<std::uint64_t> operations;
  bool full = false;  ///< I4 and I5 on the whole published grid
  // What the target offers.
  std::uint64_t region_bytes = std::uint64_t{1} << 30;
  std::uint64_t cached_region_bytes = std::uint64_t{16} << 20;
  unsigned most_threads = 28;
  bool prefetch_switch = true;  ///< the hardware prefetchers can be switched off
};

/// The points of probe `name`, in the order in which they are measured and reported.
[[nodiscard]] std::vector<Point> points_of(std::string_view name, const Settings& settings);

}  // namespace perdure::probe
