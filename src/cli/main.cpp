// perdure-native: runs indexes on this machine. See `perdure-native --help`.
#include <algorithm>
#include <array>
#include <iostream>

#include "cli/commands.h"
#include "core/suggest.h"
#include "driver/interrupt.h"

namespace {

using perdure::Error;
using perdure::ErrorCode;
using perdure::cli::Arguments;

struct Command {
  const char* name;
  int (*run)(const Arguments&);
  const char* description;
};

constexpr std::array<Command, 9> commands = {
    {{"bench", perdure::cli::bench_command, "run one benchmark"},
     {"crash", perdure::cli::crash_command, "explore what a power cut may leave (perdure-sim)"},
     {"serve", perdure::cli::serve_command,
      "serve a pool's documents to MongoDB and Redis clients"},
     {"engine", perdure::cli::engine_command, "check, export or replay a pool of documents"},
     {"list", perdure::cli::list_command,
      "list indexes, workloads, platforms, heaps, options or flags"},
     {"probe", perdure::cli::probe_command, "measure memory: latency, bandwidth, idiosyncrasies"},
     {"describe", perdure::cli::describe_command, "show every number of a platform"},
     {"environment", perdure::cli::environment_command, "show the machine"},
     {"version", perdure::cli::version_command, "show version, commit and compiler"}}};

constexpr const char* remedy =
    "give one of bench, crash, serve, engine, list, probe, describe, environment, version";

int help() {
  std::string text = "perdure-native: indexes on persistent memory, measured on this machine\n\n";
  for (const Command& command : commands) {
    std::string line = "  ";
    line += command.name;
    line.resize(16, ' ');
    text += line + command.description + "\n";
  }
  text += "\n`perdure-native COMMAND --help` shows a command's flags.\n";
  return perdure::cli::print_result(text);
}

}  // namespace

int main(int argc, char** argv) {
  perdure::cli::explain_sudden_ends();
  const perdure::driver::Unfinished unfinished;
  const Arguments all(argv + 1, argv + argc);
  if (all.empty())
    return perdure::cli::report(
        {ErrorCode::usage, "a sub-command is missing", "perdure-native", remedy});
  const std::string& name = all.front();
  if (name == "--help" || name == "-h" || name == "help") return help();
  if (name == "--version") return perdure::cli::version_command({});
  const auto found =
      std::ranges::find(commands, name, [](const Command& c) { return std::string(c.name); });
  if (found == commands.end()) {
    std::vector<std::string> names;
    for (const Command& command : commands) names.emplace_back(command.name);
    return perdure::cli::report({ErrorCode::usage, "there is no sub-command '" + name + "'",
                                 "perdure-native", perdure::suggestion(name, names, remedy)});
  }
  return found->run(Arguments(all.begin() + 1, all.end()));
}
