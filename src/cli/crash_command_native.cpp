#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace perdure::cli {

int crash_command(const Arguments&) {
  return report(
      {ErrorCode::unsupported, "this build has no access hooks", "crash", "run perdure-sim crash"});
}

nlohmann::ordered_json crash_flags() { return nlohmann::ordered_json::array(); }

}  // namespace perdure::cli
