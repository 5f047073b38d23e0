// The server is native only: simulated time has no clients.
#include "cli/commands.h"

namespace perdure::cli {
namespace {

int native_only(const char* command) {
  return report({ErrorCode::unsupported, "the simulator has no server", command,
                 std::string("run perdure-native ") + command});
}

}  // namespace

int serve_command(const Arguments&) { return native_only("serve"); }

int engine_command(const Arguments&) { return native_only("engine"); }

}  // namespace perdure::cli
