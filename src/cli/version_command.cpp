#include "cli/commands.h"
#include "cli/flags.h"
#include "driver/build_info.h"

namespace perdure::cli {

int version_command(const Arguments& arguments) {
  CLI::App app("Shows version, commit and compiler.", "version");
  const auto parsed = parse(app, arguments);
  if (!parsed) return report(parsed.error());
  if (*parsed == Parsed::help_printed) return exit_ok;
  const driver::BuildInfo& build = driver::build_info();
  return print_result(std::string("perdure ") + build.version + " (" + build.commit +
                      (build.dirty ? ", with changes" : "") + ", " + build.compiler + ", " +
                      build.type + ")\n");
}

}  // namespace perdure::cli
