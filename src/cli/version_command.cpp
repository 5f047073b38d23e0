#include "cli/commands.h"
#include "cli/flags.h"
#include "driver/build_info.h"

namespace perdure::cli {

int version_command(const Arguments& arguments) {
  FlagTable table("version", "Shows version, commit and compiler.");
  if (const auto code = table.read(arguments)) return *code;
  const driver::BuildInfo& build = driver::build_info();
  return print_result(std::string("perdure ") + build.version + " (" + build.commit +
                      (build.dirty ? ", with changes" : "") + ", " + build.compiler + ", " +
                      build.type + ")\n");
}

}  // namespace perdure::cli
