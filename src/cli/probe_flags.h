// The flags of `probe`, as text, and what they resolve to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "core/result.h"
#include "driver/probe_target.h"
#include "probe/catalogue.h"

namespace perdure::cli {

/// What is to be measured on what.
struct ProbeRequest {
  std::vector<std::string> names;  ///< of probes, "all" resolved
  probe::Settings settings;
  driver::ProbeOptions options;
};

/// What the command line says.
struct ProbeFlags {
  ProbeFlags();  ///< declares them

  FlagTable table{"probe", "Measures memory: the idiosyncrasies I1 to I7, and free sweeps."};
  ProbeRequest request;  ///< what flags fill

  std::vector<std::string> names;
  std::optional<std::string> output;
  bool json = false;
  bool dry_run = false;
  bool quiet = false;
};

/// Everything checked, nothing opened. Errors: usage.
[[nodiscard]] Result<ProbeRequest> resolve(ProbeFlags& flags);

/// The points of all probes of a request, given what its target offers. Errors: usage, for a region
/// that is too small for what is to be done in it.
[[nodiscard]] Result<std::vector<probe::Point>> points_of(const ProbeRequest& request,
                                                          const driver::ProbeDefaults& defaults);

}  // namespace perdure::cli
