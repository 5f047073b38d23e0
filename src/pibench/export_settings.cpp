#include "pibench/export_settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/suggest.h"
#include "core/units.h"

namespace perdure {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The choice whose name the variable holds; the first where it is not set.
template <class Choice, std::size_t n>
Result<Choice> choose(const char* name, const std::array<Choice, n>& choices) {
  const std::string given = variable(name);
  if (given.empty()) return choices[0];
  std::vector<std::string> names;
  std::string all;
  for (const Choice choice : choices) {
    if (given == name_of(choice)) return choice;
    names.emplace_back(name_of(choice));
    all += (all.empty() ? "" : " | ") + names.back();
  }
  return Error{ErrorCode::usage, "'" + given + "' is not one of " + all, name,
               suggestion(given, names, "choose one of them")};
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

Result<void> read_index(ExportSettings& settings) {
  const std::string name = variable("PERDURE_INDEX");
  if (name.empty())
    return Error{ErrorCode::usage, "is not set", "PERDURE_INDEX",
                 "name an index, for example PERDURE_INDEX=fptree"};
  const auto info = IndexRegistry::find(name);
  if (!info)
    return Error{info.error().code, info.error().what, "PERDURE_INDEX", info.error().remedy};
  settings.info = *info;
  auto options = IndexRegistry::options(*settings.info, split(variable("PERDURE_OPTIONS")));
  if (!options)
    return Error{options.error().code, options.error().what, "PERDURE_OPTIONS",
                 options.error().remedy};
  settings.options = std::move(options).value();
  return {};
}

Result<void> read_pool(ExportSettings& settings, const tree_options_t& options) {
  settings.pool_path = options.pool_path;
  settings.pool_bytes = options.pool_size;
  if (const std::string bytes = variable("PERDURE_POOL_BYTES"); !bytes.empty()) {
    const auto parsed = parse_bytes(bytes, "PERDURE_POOL_BYTES");
    if (!parsed) return parsed.error();
    settings.pool_bytes = *parsed;
  }
  const IndexClass index_class = settings.info->index_class;
  const bool in_pool = index_class == IndexClass::persistent;
  const bool in_files =
      index_class == IndexClass::on_disk || (in_pool && settings.heap != HeapKind::dram);
  if (in_files && settings.pool_path.empty())
    return Error{ErrorCode::usage, settings.info->name + " needs a path for its pool",
                 "--pool_path", "name a path that does not exist yet"};
  if (in_pool && settings.pool_bytes == 0)
    return Error{ErrorCode::usage, settings.info->name + " needs the size of its pool",
                 "--pool_size", "give it in bytes, or set PERDURE_POOL_BYTES=4GiB"};
  return {};
}

}  // namespace

Result<ExportSettings> ExportSettings::read(const tree_options_t& options) {
  ExportSettings settings;
  if (auto done = read_index(settings); !done) return done.error();
  const auto heap =
      choose("PERDURE_HEAP", std::array{HeapKind::slab, HeapKind::pmdk, HeapKind::dram});
  if (!heap) return heap.error();
  settings.heap = *heap;
  const auto durability =
      choose("PERDURE_DURABILITY",
             std::array{pm::Durability::adr, pm::Durability::eadr, pm::Durability::none});
  if (!durability) return durability.error();
  settings.durability = *durability;
  settings.threads = static_cast<unsigned>(std::clamp<std::size_t>(options.num_threads, 1, 1024));
  if (auto done = read_pool(settings, options); !done) return done.error();
  return settings;
}

}  // namespace perdure
