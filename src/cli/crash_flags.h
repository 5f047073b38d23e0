// The flags of `crash`, and the plan that they make.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"
#include "core/result.h"
#include "crash/search.h"

namespace perdure::cli {

/// What the command line says.
struct CrashFlags {
  CrashFlags();  ///< declares them

  FlagTable table{"crash", "Explores what a power cut may leave behind."};
  crash::Plan plan;  ///< what flags fill

  std::string index, out, replay, mutate, place;
  std::vector<std::string> options;
  std::uint64_t room = 0;
  bool smells = false;
  bool json = false;
  bool quiet = false;
};

/// Errors: usage, unsupported.
[[nodiscard]] Result<crash::Plan> plan_of(const CrashFlags& flags);

}  // namespace perdure::cli
