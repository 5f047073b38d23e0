// Which index is measured: one of the registry with its options, or a PiBench wrapper.
#include <filesystem>

#include "cli/bench_steps.h"

namespace perdure::cli {
namespace {

Result<void> choose_plugin(BenchFlags& flags) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(*flags.plugin, ignored))
    return Error{ErrorCode::not_found, "there is no such file", "--plugin " + *flags.plugin,
                 "name the wrapper's shared library"};
  if (!flags.options.empty())
    return usage("a wrapper takes no options", "--option " + flags.options.front(), "leave it out");
  if (flags.table.given("--heap"))
    return usage("a wrapper has a heap of its own", flags.table.written("--heap"), "leave it out");
  flags.config.plugin = *flags.plugin;
  flags.config.index.name = std::filesystem::path(*flags.plugin).stem().string();
  flags.config.index.title = "PiBench wrapper " + *flags.plugin;
  return {};
}

}  // namespace

Result<void> choose_index(BenchFlags& flags) {
  if (flags.plugin && flags.index)
    return usage("names an index beside --plugin", "--index", "give one of the two");
  if (flags.plugin) return choose_plugin(flags);
  if (!flags.index)
    return usage("an index is missing", "--index", "`perdure list indexes` shows them");
  const std::string name = flags.mode ? *flags.index + ":" + *flags.mode : *flags.index;
  const auto info = IndexRegistry::find(name);
  if (info)
    flags.config.index = **info;
  else if (auto chosen = choose_queue(flags, name); !chosen)
    return QueueRegistry::all().empty() ? info.error() : chosen.error();
  if (!flags.config.index.heaps.empty()) flags.config.heap = flags.config.index.heaps.front();
  return {};
}

Result<void> resolve_options(BenchFlags& flags) {
  if (flags.plugin) return {};
  const auto options = IndexRegistry::options(flags.config.index, flags.options);
  if (!options) return options.error();
  flags.config.options = *options;
  return {};
}

}  // namespace perdure::cli
