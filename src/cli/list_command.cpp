#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/bench_flags.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/probe_flags.h"
#include "core/data_files.h"
#include "index/registry.h"
#include "lockfree/base/queue_registry.h"
#include "platform/description/description.h"
#include "workload/workload.h"

namespace perdure::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Heap {
  const char* name;
  const char* description;
};
constexpr std::array<Heap, 4> heaps = {
    {{"slab", "blocks from a mapped file, allocation state rebuilt at recovery (default)"},
     {"pmdk", "libpmemobj reserve and publish"},
     {"dram", "an anonymous mapping, gone at the end: no --pool"},
     {"memkind", "memory of the pool's medium used as volatile memory, gone at the end"}}};

constexpr std::array kinds_of_keys{KeyKind::integer, KeyKind::bytes, KeyKind::slots};

Json json_of(const std::vector<IndexOption>& declared) {
  Json options = Json::array();
  for (const IndexOption& option : declared)
    options.push_back({{"name", option.name},
                       {"description", option.description},
                       {"default", option.fallback},
                       {"least", option.least},
                       {"most", option.most}});
  return options;
}

Json targets(bool native_only) {
  return native_only ? Json::array({"native"}) : Json::array({"native", "sim"});
}

Json json_of(const IndexInfo& info) {
  Json kinds = Json::array();
  for (const KeyKind kind : kinds_of_keys)
    if (info.offers(kind)) kinds.push_back(name_of(kind));
  Json suitable = Json::array();
  for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk, HeapKind::dram, HeapKind::memkind})
    if (std::ranges::find(info.heaps, heap) != info.heaps.end()) suitable.push_back(name_of(heap));
  Json locks = Json::array();
  for (const LockKind lock : info.locks) locks.push_back(name_of(lock));
  return {{"name", info.full_name()},
          {"title", info.title},
          {"index_class", name_of(info.index_class)},
          {"key_kinds", std::move(kinds)},
          {"heaps", std::move(suitable)},
          {"locks", std::move(locks)},
          {"ordered", info.ordered},
          {"replaces", info.replaces},
          {"is_linear", info.is_linear},
          {"needs_eadr", info.needs_eadr},
          {"progress", name_of(info.progress)},
          {"verifiable", info.verifiable},
          {"targets", targets(info.native_only)},
          {"recovers",
           std::ranges::any_of(kinds_of_keys, [&](KeyKind kind) { return info.recovers(kind); })},
          {"tearing", name_of(info.tearing)},
          {"options", json_of(info.options)}};
}

Json json_of(const QueueInfo& info) {
  Json suitable = Json::array();
  for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk, HeapKind::dram, HeapKind::memkind})
    if (uses_pool(info.index_class) && info.works_on(heap)) suitable.push_back(name_of(heap));
  return {{"name", info.full_name()},
          {"title", info.title},
          {"index_class", name_of(info.index_class)},
          {"progress", name_of(info.progress)},
          {"heaps", std::move(suitable)},
          {"targets", targets(info.native_only)},
          {"recovers", info.recover != nullptr},
          {"detectable", info.detectable},
          {"options", json_of(info.options)}};
}

Json indexes() {
  Json list = Json::array();
  for (const IndexInfo& info : IndexRegistry::all()) list.push_back(json_of(info));
  return list;
}

Json queues() {
  Json list = Json::array();
  for (const QueueInfo& info : QueueRegistry::all()) list.push_back(json_of(info));
  return list;
}

// Of queues too: --option is one flag.
Json options() {
  Json list = Json::array();
  const auto add = [&list](const std::string& owner, const std::vector<IndexOption>& declared) {
    for (const Json& option : json_of(declared)) {
      Json entry = {{"index", owner}};
      entry.update(option);
      list.push_back(std::move(entry));
    }
  };
  for (const IndexInfo& info : IndexRegistry::all()) add(info.full_name(), info.options);
  for (const QueueInfo& info : QueueRegistry::all()) add(info.full_name(), info.options);
  return list;
}

Json workloads() {
  Json list = Json::array();
  const auto folder = data_folder("workloads");
  for (const std::string& name : data_names("workloads")) {
    const auto path = folder / (name + ".toml");
    const auto loaded = workload::load_workload(path);
    Json entry = {{"name", name}, {"file", path.string()}, {"mix", nullptr}, {"error", nullptr}};
    if (loaded)
      entry["mix"] = workload::text_of(loaded->mix);
    else
      entry["error"] = loaded.error().line();
    list.push_back(std::move(entry));
  }
  return list;
}

Json platforms() {
  Json list = Json::array();
  for (const std::string& name : platform::platform_names()) {
    const auto loaded = platform::load_platform(name);
    Json entry = {{"name", name},
                  {"title", nullptr},
                  {"persistence_domain", nullptr},
                  {"cpus", nullptr},
                  {"file", (data_folder("platforms") / (name + ".toml")).string()},
                  {"fingerprint", nullptr},
                  {"error", nullptr}};
    if (loaded) {
      entry["title"] = loaded->platform.title;
      entry["persistence_domain"] = platform::name_of(loaded->platform.domain);
      entry["cpus"] = loaded->platform.cpus();
      entry["fingerprint"] = platform::fingerprint_of(loaded->platform);
    } else {
      entry["error"] = loaded.error().line();
    }
    list.push_back(std::move(entry));
  }
  return list;
}

// Of every command that has many; `crash` is in perdure-sim only.
Json flags() {
  Json list = BenchFlags().table.json();
  for (const Json& more : {ProbeFlags().table.json(), crash_flags()})
    list.insert(list.end(), more.begin(), more.end());
  return list;
}

Json heap_list() {
  Json list = Json::array();
  for (const Heap& heap : heaps)
    list.push_back({{"name", heap.name}, {"description", heap.description}});
  return list;
}

std::string cell(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "-";
  if (value.is_array()) {
    std::string joined;
    for (const Json& element : value) joined += (joined.empty() ? "" : ",") + cell(element);
    return joined;
  }
  return value.dump();
}

// Columns as wide as their longest text; the last column is not padded.
std::string columns(const Json& list, const std::vector<std::string>& names) {
  std::vector<std::size_t> widths;
  for (const std::string& name : names) {
    std::size_t width = name.size();
    for (const Json& entry : list) width = std::max(width, cell(entry[name]).size());
    widths.push_back(width);
  }
  std::string table;
  const auto add_line = [&](auto text_of_column) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::string padded = text_of_column(names[i]);
      if (i + 1 < names.size()) padded.resize(widths[i] + 2, ' ');
      table += padded;
    }
    table += "\n";
  };
  add_line([](const std::string& name) { return name; });
  for (const Json& entry : list)
    add_line([&](const std::string& name) { return cell(entry[name]); });
  return table;
}

struct Listing {
  const char* name;
  Json (*list)();
  std::vector<std::string> columns;
};

const std::array<Listing, 7>& listings() {
  static const std::array<Listing, 7> all = {
      {{"indexes", indexes, {"name", "index_class", "key_kinds", "targets", "title"}},
       {"queues", queues, {"name", "index_class", "progress", "targets", "title"}},
       {"workloads", workloads, {"name", "mix", "file"}},
       {"platforms", platforms, {"name", "persistence_domain", "cpus", "title"}},
       {"heaps", heap_list, {"name", "description"}},
       {"options", options, {"index", "name", "default", "least", "most", "description"}},
       {"flags", flags, {"command", "name", "kind", "help"}}}};
  return all;
}

}  // namespace

int list_command(const Arguments& arguments) {
  FlagTable table("list",
                  "Lists what there is: indexes, queues, workloads, platforms, heaps, options or "
                  "flags.");
  std::vector<std::string> what;
  bool json = false;
  table.add_words(
      "what", what,
      "indexes, queues, workloads, platforms, heaps, options (of indexes and queues) or flags (of "
      "commands)");
  table.add_switch("--json", json, "as JSON");
  if (const auto code = table.read(arguments)) return *code;
  std::vector<std::string> names;
  for (const Listing& listing : listings()) names.emplace_back(listing.name);
  if (what.size() != 1)
    return report({ErrorCode::usage,
                   what.empty() ? "does not say what to list" : "lists one thing at a time", "list",
                   "give one of indexes, queues, workloads, platforms, heaps, options, flags"});
  const auto& all = listings();
  const auto found = std::ranges::find(all, what.front(), &Listing::name);
  if (found == all.end()) return report(not_one_of(what.front(), "list", names));
  const Json list = found->list();
  return print_result(json ? json_text(list) : columns(list, found->columns));
}

}  // namespace perdure::cli
