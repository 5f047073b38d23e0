// What the threads do: the workload, its keys, what ends a repetition, and whether the index can.
#include <algorithm>
#include <filesystem>

#include "cli/bench_steps.h"
#include "core/data_files.h"
#include "driver/pool_setup.h"
#include "pibench/plugin_index.h"
#include "workload/keys.h"

namespace perdure::cli {
namespace {

constexpr double default_seconds = 3;
constexpr double default_warmup_seconds = 0.5;
constexpr std::uint64_t default_simulated_operations = 100'000;

Result<void> resolve_keys(BenchFlags& flags) {
  workload::Workload& workload = flags.config.workload;
  using Form = workload::Keys::Form;
  const auto kind = flags.key_kind;
  flags.config.slots = kind == KeyKind::slots;
  if (kind && *kind != KeyKind::bytes && workload.keys.form == Form::file)
    workload.keys.form = Form::integers;
  if (!kind || (*kind == KeyKind::bytes) == workload.is_bytes()) return {};
  if (flags.table.given("--keys"))
    return usage(
        flags.table.written("--keys") + " makes " + name_of(flags.config.key_kind()) + " keys",
        flags.table.written("--key-kind"), "leave --key-kind out");
  workload.keys = {};
  workload.keys.form = *kind == KeyKind::bytes ? Form::random : Form::mixed;
  return {};
}

Result<void> resolve_limits(BenchFlags& flags) {
  driver::BenchConfig& config = flags.config;
  workload::Workload& workload = config.workload;
  if (flags.operations && flags.seconds)
    return usage("limits the run beside --operations", "--seconds", "give one of the two");
  if (flags.operations) {
    workload.limit_operations(*flags.operations);
  } else if (flags.seconds) {
    if (*flags.seconds <= 0)
      return usage("there is no time to run", flags.table.written("--seconds"), "give more than 0");
    workload.limit_seconds(*flags.seconds);
  } else if (workload.operations == 0 && workload.seconds <= 0) {
    if (config.simulated)
      workload.limit_operations(default_simulated_operations);
    else
      workload.limit_seconds(default_seconds);
  }
  // A number of operations makes the run exact, which a timed warm-up that writes would undo.
  const bool timed = workload.operations == 0 && !config.simulated;
  if (timed && !flags.table.given("--warmup-seconds"))
    config.warmup_seconds = default_warmup_seconds;
  return {};
}

// A structure is as large as the workload, unless its size was given.
void expect_records(BenchFlags& flags) {
  const auto& declared = flags.config.index.options;
  const auto is_given = [](const std::string& pair) { return pair.starts_with("records="); };
  const auto option = std::ranges::find(declared, "records", &IndexOption::name);
  if (option == declared.end() || std::ranges::any_of(flags.options, is_given)) return;
  flags.config.options.set(
      "records", std::clamp(driver::expected_records(flags.config), option->least, option->most));
}

Result<void> check_kind(const BenchFlags& flags) {
  const driver::BenchConfig& config = flags.config;
  const IndexInfo& index = config.index;
  const KeyKind kind = config.key_kind();
  const std::string value_bytes = "--value-bytes " + std::to_string(config.workload.value_bytes);
  if (!index.offers(kind) && kind == KeyKind::slots)
    return Error{ErrorCode::unsupported, index.name + " has values of 8 bytes beside integer keys",
                 config.slots ? "--key-kind slots" : value_bytes,
                 "leave it out, or give --keys prefixed, random or file"};
  if (!index.offers(kind))
    return Error{ErrorCode::unsupported, index.name + " has no " + name_of(kind) + " keys",
                 flags.table.given("--keys") ? "--keys" : "--key-kind",
                 std::string("give --key-kind ") + (kind == KeyKind::bytes ? "integer" : "bytes")};
  if (kind == KeyKind::slots && config.workload.value_bytes > max_slot_value_bytes)
    return usage("longer than a slot holds", value_bytes,
                 "at most " + std::to_string(max_slot_value_bytes) + " bytes");
  return {};
}

// A wrapper's interface passes strings without their lengths, so all keys must have one.
Result<void> check_plugin_keys(const BenchFlags& flags) {
  const workload::Workload& workload = flags.config.workload;
  const workload::Keys& keys = workload.keys;
  if (!workload.is_bytes()) {
    if (flags.config.key_kind() == KeyKind::slots)
      return usage("a wrapper's integer keys have values of 8 bytes", "--value-bytes",
                   "leave it out");
    return {};
  }
  using Form = workload::Keys::Form;
  const bool one_length = keys.form == Form::prefixed || keys.form == Form::uuid ||
                          keys.form == Form::uuid_binary || keys.form == Form::kmer_text ||
                          (keys.form == Form::random && keys.min_bytes == keys.max_bytes);
  const std::string where = flags.table.given("--keys") ? flags.table.written("--keys") : "keys";
  if (!one_length)
    return usage("a PiBench wrapper takes keys of one length only", where, "give --keys random:16");
  if (workload::KeySpace(workload).longest() > max_plugin_key_bytes)
    return usage("longer than a PiBench wrapper takes", where,
                 "at most " + std::to_string(max_plugin_key_bytes) + " bytes");
  if (workload.value_bytes > max_plugin_value_bytes)
    return usage("longer than a PiBench wrapper takes",
                 "--value-bytes " + std::to_string(workload.value_bytes),
                 "at most " + std::to_string(max_plugin_value_bytes) + " bytes");
  return {};
}

}  // namespace

Result<void> load_workload_file(BenchFlags& flags) {
  if (!flags.workload) return {};
  const auto path = data_path("workloads", *flags.workload);
  auto loaded = workload::load_workload(path);
  if (loaded) {
    flags.config.workload = std::move(loaded).value();
    return {};
  }
  Error error = loaded.error();
  std::error_code ignored;
  if (error.code == ErrorCode::not_found && !std::filesystem::exists(path, ignored)) {
    const auto names = data_names("workloads");
    if (!names.empty()) error = not_one_of(*flags.workload, "--workload", names);
    if (flags.workload->size() == 9 && flags.workload->starts_with("workload"))
      error.remedy = "YCSB's workloada is ycsb-a here, and so on";
  }
  return error;
}

Result<void> resolve_workload(BenchFlags& flags) {
  if (auto resolved = resolve_keys(flags); !resolved) return resolved;
  return resolve_limits(flags);
}

Result<void> check_workload(BenchFlags& flags) {
  driver::BenchConfig& config = flags.config;
  if (config.queue) return {};
  if (auto valid = workload::validate(config.workload); !valid) return valid;
  if (auto opened = workload::open_key_file(config.workload); !opened) return opened;
  expect_records(flags);
  const auto suits = flags.plugin ? check_plugin_keys(flags) : check_kind(flags);
  if (!suits) return suits;
  if (config.workload.mix.has(workload::Operation::scan) && !config.index.ordered)
    return usage(config.index.name + " is unordered and cannot scan", "--mix",
                 "take scan out of the mix");
  for (const auto operation : {workload::Operation::update, workload::Operation::upsert})
    if (config.workload.mix.has(operation) && !config.index.replaces)
      return usage(config.index.full_name() + " replaces no values: it has no " +
                       workload::name_of(operation),
                   "--mix", "use insert, remove and lookup");
  return {};
}

}  // namespace perdure::cli
