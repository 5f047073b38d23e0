// Where on a platform a simulation runs, and what it leaves out: the values of --cpus and --ablate.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "platform/model/machine.h"
#include "platform/model/platform.h"

namespace perdure::platform {

/// The node (socket) of a CPU. CPUs count through the cores of all sockets, then through their
/// second hardware threads, as Linux numbers them.
[[nodiscard]] unsigned node_of(const Platform& platform, unsigned cpu) noexcept;

/// All CPUs in the order threads are given them when --cpus says nothing.
[[nodiscard]] std::vector<unsigned> default_cpus(const Platform& platform);

/// "node1", "0-13,28,30-35", "node0,28-31": CPUs in the order written. `where` stands in errors.
/// Errors: usage, for what the platform has not, and for a CPU named twice.
[[nodiscard]] Result<std::vector<unsigned>> parse_cpus(std::string_view text,
                                                       const Platform& platform,
                                                       std::string_view where = "--cpus");

/// Every mechanism that can be left out, as --ablate names it: "no-directory".
[[nodiscard]] std::vector<std::string> ablation_names();

/// Names (each may be a list with commas), without repetition and in one order: `names_of` gives
/// them back. Errors: usage, with the nearest name.
[[nodiscard]] Result<Ablation> parse_ablations(std::span<const std::string> names,
                                               std::string_view where = "--ablate");
[[nodiscard]] std::vector<std::string> names_of(const Ablation& ablation);

}  // namespace perdure::platform
