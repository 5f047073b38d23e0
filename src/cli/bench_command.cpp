#include <cstdio>

#include "cli/bench_flags.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "driver/interrupt.h"
#include "driver/run_record.h"

namespace perdure::cli {
namespace {

static_assert(exit_interrupted == driver::interrupted_exit_code);

void warn(const driver::BenchResult& result) {
  for (const std::string& warning : result.warnings)
    std::fprintf(stderr, "perdure: warning: %s\n", warning.c_str());
}

Error wrong_answers(const driver::BenchConfig& config,
                    const workload::Verifier::Summary& verification) {
  std::string what = std::to_string(verification.wrong) + " of " +
                     std::to_string(verification.checked) + " answers were wrong";
  if (!verification.examples.empty()) what += ", the first: " + verification.examples.front();
  return {ErrorCode::failed, what, config.index.name, ""};
}

}  // namespace

int bench_command(const Arguments& arguments) {
  BenchFlags flags;
  if (const auto code = flags.table.parse(arguments)) return *code;
  const auto config = resolve(flags);
  if (!config) return report(config.error());
  if (flags.dry_run) return print_result(json_text(driver::configuration_of(*config)));

  keep_stdout_for_results();
  constexpr unsigned patience_seconds = 5;
  driver::watch_for_interrupts(patience_seconds);
  if (!config->plugin.empty()) driver::explain_aborts();
  auto result = [&] {
    driver::Progress progress(flags.quiet);
    return driver::run_bench(*config, progress);
  }();
  if (!result) return report(result.error());
  if (result->interrupted) {
    std::fprintf(stderr, "perdure: interrupted: the pool is closed, no result is printed\n");
    return exit_interrupted;
  }
  int code = exit_ok;
  if (flags.json) {
    std::optional<driver::Environment> environment;
    if (!config->simulated) environment = driver::read_environment();
    code = print_result(json_text(driver::record_of(*config, *result, environment)));
  } else {
    code = print_result(table_of(*config, *result));
    if (!flags.quiet) warn(*result);
  }
  if (result->unwritten) code = report(*result->unwritten);
  if (result->verification && result->verification->wrong != 0)
    code = report(wrong_answers(*config, *result->verification));
  if (result->broken_invariant) code = report(*result->broken_invariant);
  return code;
}

}  // namespace perdure::cli
