// From the text of the flags to a checked configuration. Nothing is created on the way.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "cli/bench_flags.h"
#include "cli/flags.h"
#include "cli/simulated_flags.h"
#include "core/data_files.h"
#include "core/units.h"
#include "driver/numa.h"
#include "driver/pool_setup.h"
#include "driver/topology.h"
#include "pibench/plugin_index.h"
#include "workload/keys.h"

namespace perdure::cli {
namespace {

using driver::Arrivals;
using driver::BenchConfig;
using driver::Latency;
using driver::Parallel;
using workload::Operation;

constexpr double default_seconds = 3;
constexpr double default_warmup_seconds = 0.5;
constexpr std::uint64_t default_simulated_operations = 100'000;
constexpr std::uint64_t most_repetitions = 1000;
constexpr std::uint64_t most_latency_interval = 1'000'000;

template <class T>
struct Choice {
  const char* name;
  T value;
};

// Sets `to` when the flag was given. The first choice list that lacks the text is the error.
template <class T, std::size_t n, class Target>
Result<void> choose(const BenchFlags::Text& text, const char* flag,
                    const std::array<Choice<T>, n>& choices, Target& to) {
  if (!text) return {};
  std::vector<std::string> names;
  for (const Choice<T>& choice : choices) {
    if (*text == choice.name) {
      to = choice.value;
      return {};
    }
    names.emplace_back(choice.name);
  }
  return not_one_of(*text, flag, names);
}

constexpr std::array<Choice<Parallel>, 5> parallel_modes = {
    {{"shared", Parallel::shared},
     {"single", Parallel::single},
     {"parallel-saturated", Parallel::saturated},
     {"concurrent-contended", Parallel::contended},
     {"numa", Parallel::numa}}};

class BenchResolver {
 public:
  explicit BenchResolver(const BenchFlags& flags) : flags_(flags) {}

  Result<BenchConfig> resolve() {
    using Step = Result<void> (BenchResolver::*)();
    for (const Step step : {&BenchResolver::resolve_target, &BenchResolver::resolve_index,
                            &BenchResolver::resolve_workload, &BenchResolver::resolve_keys,
                            &BenchResolver::resolve_limits, &BenchResolver::resolve_run,
                            &BenchResolver::resolve_parallel, &BenchResolver::resolve_memory,
                            &BenchResolver::resolve_machine, &BenchResolver::check_place,
                            &BenchResolver::check_together})
      if (auto done = (this->*step)(); !done) return done.error();
    return std::move(config_);
  }

 private:
  Result<void> resolve_target() {
    auto machine = resolve_simulated_machine(flags_);
    if (!machine) return machine.error();
    config_.simulated = std::move(machine).value();
    if (!config_.simulated) return {};
    // What a native run finds out about this machine, a simulated one is told.
    config_.durability = durability_of(config_.simulated->platform.domain);
    config_.simd = pm::SimdLevel::sse2;
    config_.repetitions = 1;
    return {};
  }

  static pm::Durability durability_of(platform::PersistenceDomain domain) noexcept {
    switch (domain) {
      case platform::PersistenceDomain::adr:
        return pm::Durability::adr;
      case platform::PersistenceDomain::eadr:
        return pm::Durability::eadr;
      case platform::PersistenceDomain::none:
        break;
    }
    return pm::Durability::none;
  }

  Result<void> resolve_index() {
    if (flags_.plugin && flags_.index)
      return usage("names an index beside --plugin", "--index", "give one of the two");
    if (flags_.plugin) return resolve_plugin();
    if (!flags_.index)
      return usage("an index is missing", "--index", "`perdure list indexes` shows them");
    auto info =
        IndexRegistry::find(flags_.mode ? *flags_.index + ":" + *flags_.mode : *flags_.index);
    if (!info) return info.error();
    config_.index = **info;
    return resolve_options();
  }

  Result<void> resolve_plugin();
  Result<void> check_plugin() const;

  Result<void> resolve_options() {
    auto options = IndexRegistry::options(config_.index, flags_.options);
    if (!options) return options.error();
    config_.options = *options;
    return {};
  }

  // A structure is as large as the workload, unless its size was given.
  void expect_records() {
    const auto& declared = config_.index.options;
    const auto is_given = [](const std::string& pair) { return pair.starts_with("records="); };
    const auto option = std::ranges::find(declared, "records", &IndexOption::name);
    if (option == declared.end() || std::ranges::any_of(flags_.options, is_given)) return;
    config_.options.set("records",
                        std::clamp(driver::expected_records(config_), option->least, option->most));
  }

  Result<void> resolve_workload() {
    workload::Workload& workload = config_.workload;
    if (flags_.workload) {
      const auto path = data_path("workloads", *flags_.workload);
      auto loaded = workload::load_workload(path);
      if (!loaded) {
        Error error = loaded.error();
        std::error_code ignored;
        if (error.code == ErrorCode::not_found && !std::filesystem::exists(path, ignored)) {
          const auto names = data_names("workloads");
          if (!names.empty()) error = not_one_of(*flags_.workload, "--workload", names);
          if (flags_.workload->size() == 9 && flags_.workload->starts_with("workload"))
            error.remedy = "YCSB's workloada is ycsb-a here, and so on";
        }
        return error;
      }
      workload = *loaded;
    }
    if (auto set = count(flags_.records, "--records", workload.records); !set) return set;
    if (auto set = count(flags_.seed, "--seed", workload.seed); !set) return set;
    if (flags_.mix) {
      auto mix = workload::parse_mix(*flags_.mix);
      if (!mix) return mix.error();
      workload.mix = *mix;
    }
    if (flags_.distribution) {
      auto distribution = workload::parse_distribution(*flags_.distribution);
      if (!distribution) return distribution.error();
      workload.distribution = *distribution;
    }
    if (flags_.scan_count) {
      auto scan = workload::parse_scan_count(*flags_.scan_count);
      if (!scan) return scan.error();
      workload.scan = *scan;
    }
    static constexpr std::array<Choice<workload::LoadOrder>, 2> orders = {
        {{"random", workload::LoadOrder::random}, {"sequential", workload::LoadOrder::sequential}}};
    return choose(flags_.load_order, "--load-order", orders, workload.load_order);
  }

  Result<void> resolve_keys() {
    workload::Workload& workload = config_.workload;
    if (flags_.keys) {
      auto keys = workload::parse_keys(*flags_.keys);
      if (!keys) return keys.error();
      workload.keys = *keys;
    }
    std::optional<KeyKind> kind;
    static constexpr std::array<Choice<KeyKind>, 3> kinds = {
        {{"integer", KeyKind::integer}, {"bytes", KeyKind::bytes}, {"slots", KeyKind::slots}}};
    if (auto chosen = choose(flags_.key_kind, "--key-kind", kinds, kind); !chosen) return chosen;
    std::uint64_t value_bytes = workload.value_bytes;
    if (auto set = count(flags_.value_bytes, "--value-bytes", value_bytes); !set) return set;
    workload.value_bytes = value_bytes;
    if (kind && *kind != KeyKind::bytes && workload.keys.form == workload::Keys::Form::file)
      workload.keys.form = workload::Keys::Form::integers;
    if (kind && (*kind == KeyKind::bytes) != workload.is_bytes()) {
      if (flags_.keys)
        return usage(
            "--keys " + *flags_.keys + " makes " + perdure::name_of(config_.key_kind()) + " keys",
            "--key-kind " + *flags_.key_kind, "leave --key-kind out");
      workload.keys = {};
      workload.keys.form =
          *kind == KeyKind::bytes ? workload::Keys::Form::random : workload::Keys::Form::mixed;
    }
    return {};
  }

  Result<void> resolve_limits() {
    workload::Workload& workload = config_.workload;
    if (flags_.operations && flags_.seconds)
      return usage("limits the run beside --operations", "--seconds", "give one of the two");
    if (flags_.operations) {
      std::uint64_t operations = 0;
      if (auto set = count(flags_.operations, "--operations", operations); !set) return set;
      if (operations == 0)
        return usage("there is nothing to do", "--operations 0", "give 1 or more");
      workload.limit_operations(operations);
    } else if (flags_.seconds) {
      double seconds = 0;
      if (auto set = number(flags_.seconds, "--seconds", seconds); !set) return set;
      if (seconds <= 0)
        return usage("there is no time to run", "--seconds " + *flags_.seconds, "give more than 0");
      workload.limit_seconds(seconds);
    } else if (workload.operations == 0 && workload.seconds <= 0) {
      if (config_.simulated)
        workload.limit_operations(default_simulated_operations);
      else
        workload.limit_seconds(default_seconds);
    }
    // A count of operations is asked for to make the run exact, which a timed warm-up that writes
    // would undo.
    const bool timed = workload.operations == 0 && !config_.simulated;
    config_.warmup_seconds = timed ? default_warmup_seconds : 0;
    return number(flags_.warmup_seconds, "--warmup-seconds", config_.warmup_seconds);
  }

  Result<void> resolve_run() {
    if (auto set = resolve_threads(); !set) return set;
    std::uint64_t repetitions = config_.repetitions;
    if (auto set = count(flags_.repetitions, "--repetitions", repetitions); !set) return set;
    if (repetitions < 1 || repetitions > most_repetitions)
      return usage("out of range", "--repetitions " + *flags_.repetitions,
                   "give 1 to " + std::to_string(most_repetitions));
    config_.repetitions = static_cast<unsigned>(repetitions);
    if (flags_.rate) {
      std::uint64_t rate = 0;
      if (auto set = count(flags_.rate, "--rate", rate); !set) return set;
      if (rate == 0)
        return usage("no operation would ever start", "--rate 0", "give 1 or more per second");
      config_.rate_ops_s = static_cast<double>(rate);
    } else if (flags_.arrivals) {
      return usage("is for an open loop", "--arrivals", "add --rate, or leave it out");
    }
    static constexpr std::array<Choice<Arrivals>, 2> arrivals = {
        {{"constant", Arrivals::constant}, {"poisson", Arrivals::poisson}}};
    if (auto chosen = choose(flags_.arrivals, "--arrivals", arrivals, config_.arrivals); !chosen)
      return chosen;
    config_.pin = !flags_.no_pin;
    config_.bulk_load = flags_.bulk_load;
    config_.verify = flags_.verify;
    config_.answers_path = flags_.answers.value_or("");
    config_.check = flags_.check;
    config_.export_histograms = flags_.export_histograms;
    return resolve_latency();
  }

  // A paced operation is timed anyhow, to begin when it should; the virtual clock costs nothing.
  Result<void> resolve_latency() {
    const bool sampled = !config_.simulated && !config_.open_loop();
    config_.latency = sampled ? Latency::sampled : Latency::every;
    if (flags_.no_histograms && flags_.latency && *flags_.latency != "off")
      return usage("says the opposite of --no-histograms", "--latency " + *flags_.latency,
                   "give one of the two");
    if (flags_.no_histograms) config_.latency = Latency::off;
    if (!flags_.latency) return {};
    const std::string where = "--latency " + *flags_.latency;
    const auto colon = flags_.latency->find(':');
    static constexpr std::array<Choice<Latency>, 3> methods = {
        {{"sampled", Latency::sampled}, {"every", Latency::every}, {"off", Latency::off}}};
    if (auto chosen =
            choose(flags_.latency->substr(0, colon), "--latency", methods, config_.latency);
        !chosen)
      return chosen;
    if (config_.latency == Latency::sampled && !sampled)
      return usage(config_.simulated ? "the virtual clock costs nothing: every operation is timed"
                                     : "an open loop times every operation",
                   where, "leave it out");
    if (colon == std::string::npos) return {};
    std::uint64_t interval = 0;
    if (auto set = count(flags_.latency->substr(colon + 1), "--latency", interval); !set)
      return set;
    if (config_.latency != Latency::sampled || interval < 1 || interval > most_latency_interval)
      return usage("takes no such interval", where,
                   "give sampled:N, N from 1 to " + std::to_string(most_latency_interval));
    config_.latency_interval = static_cast<unsigned>(interval);
    return {};
  }

  Result<void> resolve_threads() {
    if (!flags_.threads) return {};
    if (*flags_.threads == "all") {
      const std::size_t all =
          config_.simulated ? config_.simulated->cpus.size() : driver::cores_to_use();
      config_.threads = std::min(pm::max_workers, static_cast<unsigned>(all));
      return {};
    }
    std::uint64_t threads = 0;
    if (auto set = count(flags_.threads, "--threads", threads); !set) return set;
    if (threads < 1 || threads > pm::max_workers)
      return usage("out of range", "--threads " + *flags_.threads,
                   "this build has room for " + std::to_string(pm::max_workers) +
                       " threads: give 1 to " + std::to_string(pm::max_workers) + ", or all");
    config_.threads = static_cast<unsigned>(threads);
    return {};
  }

  // What the threads share, and the lock that follows from it unless one was given.
  Result<void> resolve_parallel() {
    if (auto chosen = choose(flags_.parallel, "--parallel", parallel_modes, config_.parallel);
        !chosen)
      return chosen;
    const std::string where = "--parallel " + flags_.parallel.value_or("");
    const bool leaves_the_choice = !config_.index.locks.empty();
    switch (config_.parallel) {
      case Parallel::shared:
        break;
      case Parallel::single:
        if (config_.threads != 1)
          return usage("is of one thread", where, "leave --threads out, or give another mode");
        config_.lock = LockKind::none;
        break;
      case Parallel::saturated:
        if (auto many = check_instances(where); !many) return many;
        config_.lock = LockKind::none;
        break;
      case Parallel::contended:
        if (!leaves_the_choice)
          return usage(config_.index.name + " has its own way to let threads in", where,
                       "leave it out");
        config_.lock = config_.index.locks.front();
        break;
      case Parallel::numa:
        if (config_.simulated) break;
        if (!config_.pin) return usage("says where threads run", where, "leave --no-pin out");
        if (!driver::nodes_apart())
          return Error{ErrorCode::unsupported, "this machine has one NUMA node", where,
                       "give --target sim:PLATFORM"};
        break;
    }
    return resolve_lock();
  }

  // Whether there can be an index for each thread.
  Result<void> check_instances(const std::string& where) const {
    const bool in_memory = config_.index.index_class == IndexClass::in_memory ||
                           config_.index.index_class == IndexClass::harness;
    if (!config_.plugin.empty() || !(config_.uses_pool() || in_memory))
      return usage("there can be only one " + config_.index.name + " in a run", where,
                   "leave it out");
    if (config_.uses_pool() && config_.threads > Pool::max_roots)
      return usage("a pool holds up to " + std::to_string(Pool::max_roots) + " indexes",
                   "--threads " + std::to_string(config_.threads), "give that many or fewer");
    const std::uint64_t operations = config_.workload.operations;
    if (operations != 0 && operations < config_.threads)
      return usage("fewer than there are threads", "--operations " + std::to_string(operations),
                   "give at least one for each");
    return {};
  }

  Result<void> resolve_lock() {
    if (!flags_.lock) return {};
    const std::string where = "--lock " + *flags_.lock;
    if (config_.index.locks.empty())
      return usage(config_.index.name + " has its own way to let threads in", where,
                   "leave it out");
    std::vector<std::string> names;
    for (const LockKind kind : config_.index.locks) {
      names.emplace_back(perdure::name_of(kind));
      if (*flags_.lock == names.back()) config_.lock = kind;
    }
    if (std::ranges::find(names, *flags_.lock) == names.end())
      return not_one_of(*flags_.lock, "--lock", names);
    if (config_.lock == LockKind::none && config_.threads / config_.instances() > 1)
      return usage("threads would meet in an index that nothing guards", where,
                   "give --parallel parallel-saturated, or another lock");
    return {};
  }

  Result<void> resolve_memory() {
    config_.pool_path = flags_.pool.value_or("");
    // A wrapper may put its files' names behind that of a directory as it was given.
    while (config_.plugin.empty() && config_.pool_path.size() > 1 &&
           config_.pool_path.back() == '/')
      config_.pool_path.pop_back();
    config_.reuse = flags_.reuse;
    config_.force = flags_.force;
    config_.huge_pages = flags_.huge_pages;
    if (flags_.pool_bytes) {
      auto bytes = parse_bytes(*flags_.pool_bytes, "--pool-bytes");
      if (!bytes) return bytes.error();
      if (*bytes < Pool::min_pool_bytes)
        return usage("is smaller than a pool can be", "--pool-bytes " + *flags_.pool_bytes,
                     "give " + std::to_string(Pool::min_pool_bytes >> 20) + "MiB or more");
      config_.pool_bytes = *bytes;
    }
    static constexpr std::array<Choice<HeapKind>, 4> heaps = {{{"slab", HeapKind::slab},
                                                               {"pmdk", HeapKind::pmdk},
                                                               {"dram", HeapKind::dram},
                                                               {"memkind", HeapKind::memkind}}};
    const std::vector<HeapKind>& suitable = config_.index.heaps;
    if (!suitable.empty()) config_.heap = suitable.front();
    if (auto chosen = choose(flags_.heap, "--heap", heaps, config_.heap); !chosen) return chosen;
    if (config_.uses_pool() && !config_.index.works_on(config_.heap))
      return usage(config_.index.full_name() + " needs another heap", "--heap " + *flags_.heap,
                   "leave it out");
    return {};
  }

  Result<void> resolve_machine() {
    static constexpr std::array<Choice<pm::Durability>, 3> durabilities = {
        {{"adr", pm::Durability::adr},
         {"eadr", pm::Durability::eadr},
         {"none", pm::Durability::none}}};
    if (auto chosen = choose(flags_.durability, "--durability", durabilities, config_.durability);
        !chosen)
      return chosen;
    static constexpr std::array<Choice<pm::TransactionUse>, 3> uses = {
        {{"auto", pm::TransactionUse::automatic},
         {"on", pm::TransactionUse::on},
         {"off", pm::TransactionUse::off}}};
    if (auto chosen = choose(flags_.transactions, "--transactions", uses, config_.transactions);
        !chosen)
      return chosen;
    static constexpr std::array<Choice<pm::SimdLevel>, 3> levels = {
        {{"sse2", pm::SimdLevel::sse2},
         {"avx2", pm::SimdLevel::avx2},
         {"avx512", pm::SimdLevel::avx512}}};
    if (auto chosen = choose(flags_.simd, "--simd", levels, config_.simd); !chosen) return chosen;
    if (config_.simd && *config_.simd > pm::detect_simd_level())
      return Error{ErrorCode::unsupported, "this CPU lacks it", "--simd " + *flags_.simd,
                   std::string("give ") + pm::name_of(pm::detect_simd_level()) + " or less"};
    static constexpr std::array<Choice<pm::FlushInstruction>, 3> flushes = {
        {{"clwb", pm::FlushInstruction::clwb},
         {"clflushopt", pm::FlushInstruction::clflushopt},
         {"clflush", pm::FlushInstruction::clflush}}};
    if (auto chosen = choose(flags_.flush, "--flush", flushes, config_.flush); !chosen)
      return chosen;
    if (config_.flush && *config_.flush > pm::detect_flush_instruction())
      return Error{ErrorCode::unsupported, "this CPU lacks it", "--flush " + *flags_.flush,
                   std::string("give ") + pm::name_of(pm::detect_flush_instruction())};
    if (config_.flush && config_.durability != pm::Durability::adr)
      return usage(
          "nothing is flushed under --durability " + std::string(pm::name_of(config_.durability)),
          "--flush " + *flags_.flush, "leave --flush out");
    return {};
  }

  // Everything about --pool that can be refused before a file is touched.
  Result<void> check_place() {
    if (auto completed = complete_simulated(flags_, config_); !completed) return completed;
    if (config_.uses_path() && config_.pool_path.empty() && !config_.scratch_pool)
      return usage(config_.index.name + " needs a place for its records", "--pool",
                   config_.uses_pool() ? "give --pool /dev/shm/perdure.pool, or --heap dram"
                                       : "name a directory that does not exist yet");
    if (!config_.reuse) return {};
    if (config_.force)
      return usage("replaces what --reuse would open", "--force", "give one of the two");
    if (config_.bulk_load)
      return usage("--reuse loads nothing", "--bulk-load", "give one of the two");
    if (!config_.uses_path() || !config_.index.recovers(config_.key_kind()))
      return usage("nothing of " + config_.index.name +
                       (config_.uses_pool() ? " with --heap dram" : "") + " outlives a run",
                   "--reuse", "leave it out");
    return {};
  }

  Result<void> check_kind(KeyKind kind) const {
    const IndexInfo& index = config_.index;
    if (!index.offers(kind) && kind == KeyKind::slots)
      return Error{ErrorCode::unsupported,
                   index.name + " has values of 8 bytes beside integer keys",
                   "--value-bytes " + std::to_string(config_.workload.value_bytes),
                   "leave it out, or give --keys prefixed, random or file"};
    if (!index.offers(kind))
      return Error{
          ErrorCode::unsupported, index.name + " has no " + perdure::name_of(kind) + " keys",
          flags_.keys ? "--keys" : "--key-kind",
          std::string("give --key-kind ") + (kind == KeyKind::bytes ? "integer" : "bytes")};
    if (kind == KeyKind::slots && config_.workload.value_bytes > max_slot_value_bytes)
      return usage("longer than a slot holds",
                   "--value-bytes " + std::to_string(config_.workload.value_bytes),
                   "at most " + std::to_string(max_slot_value_bytes) + " bytes");
    return {};
  }

  Result<void> check_together() {
    if (auto valid = workload::validate(config_.workload); !valid) return valid;
    if (auto opened = workload::open_key_file(config_.workload); !opened) return opened;
    expect_records();
    const KeyKind kind = config_.key_kind();
    if (auto suits = check_plugin(); !suits) return suits;
    if (config_.plugin.empty()) {
      if (auto offered = check_kind(kind); !offered) return offered;
    } else if (kind == KeyKind::slots) {
      return usage("a wrapper's integer keys have values of 8 bytes", "--value-bytes",
                   "leave it out");
    }
    if (config_.workload.mix.has(Operation::scan) && !config_.index.ordered)
      return usage(config_.index.name + " is unordered and cannot scan", "--mix",
                   "take scan out of the mix");
    if (config_.verify && !config_.index.verifiable)
      return usage(config_.index.name + " keeps nothing that could be checked", "--verify",
                   "leave it out");
    if (!config_.answers_path.empty() && !config_.verify)
      return usage("only what is verified is kept", "--answers", "add --verify");
    if (config_.export_histograms && !config_.measures_latency())
      return usage("there are none with --latency off or --no-histograms", "--export-histograms",
                   "give one of the two");
    if (config_.export_histograms && !flags_.json)
      return usage("the histograms go into the run record", "--export-histograms", "add --json");
    return {};
  }

  static Result<void> count(const BenchFlags::Text& text, const char* flag, std::uint64_t& to) {
    if (!text) return {};
    auto value = parse_count(*text, flag);
    if (!value) return value.error();
    to = *value;
    return {};
  }
  static Result<void> number(const BenchFlags::Text& text, const char* flag, double& to) {
    if (!text) return {};
    const char* const end = text->data() + text->size();
    double value = 0;
    const auto parsed = std::from_chars(text->data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end || !std::isfinite(value) || value < 0)
      return usage("'" + *text + "' is not a number of 0 or more", flag, "write it as 5 or 0.5");
    to = value;
    return {};
  }

  const BenchFlags& flags_;
  BenchConfig config_;
};

Result<void> BenchResolver::resolve_plugin() {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(*flags_.plugin, ignored))
    return Error{ErrorCode::not_found, "there is no such file", "--plugin " + *flags_.plugin,
                 "name the wrapper's shared library"};
  if (!flags_.options.empty())
    return usage("a wrapper takes no options", "--option " + flags_.options.front(),
                 "leave it out");
  if (flags_.heap)
    return usage("a wrapper has a heap of its own", "--heap " + *flags_.heap, "leave it out");
  config_.plugin = *flags_.plugin;
  config_.index.name = std::filesystem::path(*flags_.plugin).stem().string();
  config_.index.title = "PiBench wrapper " + *flags_.plugin;
  return {};
}

// The interface passes strings without their lengths, so all keys must have one.
Result<void> BenchResolver::check_plugin() const {
  if (config_.plugin.empty()) return {};
  const workload::Workload& workload = config_.workload;
  if (!workload.is_bytes()) return {};
  const workload::Keys& keys = workload.keys;
  const bool one_length =
      keys.form == workload::Keys::Form::prefixed ||
      (keys.form == workload::Keys::Form::random && keys.min_bytes == keys.max_bytes);
  const std::string where = flags_.keys ? "--keys " + *flags_.keys : "keys";
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

Result<BenchConfig> resolve(const BenchFlags& flags) { return BenchResolver(flags).resolve(); }

}  // namespace perdure::cli
