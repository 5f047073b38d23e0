// The server is native only: simulated time has no clients. What clients did can be replayed.
#include "cli/commands.h"

namespace perdure::cli {
namespace {

int native_only(const char* command) {
  return report({ErrorCode::unsupported, "the simulator has no server", command,
                 std::string("run perdure-native ") + command});
}

}  // namespace

int serve_command(const Arguments&) { return native_only("serve"); }

int engine_command(const Arguments& arguments) {
  if (!arguments.empty() && arguments.front() == "replay")
    return replay_command({arguments.begin() + 1, arguments.end()});
  return native_only("engine");
}

}  // namespace perdure::cli
