#include "cli/probe_flags.h"

#include <algorithm>
#include <array>

#include "core/units.h"
#include "platform/description/placement.h"

namespace perdure::cli {
namespace {

using probe::Settings;

constexpr std::uint64_t largest_region = std::uint64_t{1} << 44;
constexpr std::uint64_t largest_access = std::uint64_t{64} << 20;
constexpr std::uint64_t most_probe_threads = 1024;
constexpr std::uint64_t most_probe_operations = 10'000'000'000;
constexpr std::uint64_t widest_fence_interval = 1'000'000'000;

template <class T, std::size_t n>
Kind<T> named(const std::array<probe::Name<T>, n>& names) {
  std::vector<std::pair<std::string, T>> choices;
  for (const probe::Name<T>& name : names) choices.emplace_back(name.text, name.value);
  return one_of(choices);
}

// The study's word for a store that is flushed is known, too.
Kind<probe::Op> op() {
  std::vector<std::pair<std::string, probe::Op>> choices;
  for (const auto& name : probe::ops) choices.emplace_back(name.text, name.value);
  choices.emplace_back("pstore", probe::Op::store_flush);
  return one_of(choices);
}

Kind<probe::FenceInterval> fence() {
  using Interval = probe::FenceInterval;
  return {
      "fence", [](const std::string& text, const std::string& flag) -> Result<Interval> {
        if (text == "none") return Interval{0};
        if (text == "each") return Interval{1};
        constexpr std::string_view every = "every=";
        if (text.starts_with(every))
          return count(1, widest_fence_interval).read(text.substr(every.size()), flag + " every");
        return usage("'" + text + "' is not known", flag, "give one of none, each, every=N");
      }};
}

void declare_sweep(FlagTable& table, Settings& settings) {
  table.group("What is swept (lists: 64,256)");
  table.add_list("--memory", named(probe::memories), settings.memories, "pm, dram");
  table.add_list("--op", op(), settings.ops, "load, store, store+clwb (or pstore), ntstore");
  table.add_list("--pattern", named(probe::patterns), settings.patterns, "seq, rand, stride, same");
  table.add_list("--sizes", bytes(8, largest_access), settings.sizes,
                 "bytes per operation; chase: per block");
  table.add_list("--threads", count(1, most_probe_threads), settings.threads, "threads");
  table.add_list("--regions", bytes(64, largest_region), settings.regions,
                 "bytes of memory over all threads; chase, write-buffer: a list");
  table.add("--region", bytes(64, largest_region), settings.regions, "one of them");
  table.add_list("--hit-ratios", number(0, 1), settings.hit_ratios,
                 "I1: shares of the region that are in the cache");
  table.add_list("--mix-reads", number(0, 1), settings.mix_reads,
                 "share of reads among the operations: 0.67");
}

void declare_setting(FlagTable& table, Settings& settings) {
  table.group("Setting");
  table.add("--stride", bytes(8, largest_region), settings.stride_bytes,
            "bytes from access to access, with --pattern stride");
  table.add("--align", bytes(64, largest_access), settings.align_bytes,
            "random accesses begin at multiples of this; default: of their size");
  table.add("--readers", count(1, most_probe_threads), settings.readers,
            "so many of the threads only read, the others do --op");
  table.add("--fence", fence(), settings.fence_every, "none, each or every=N operations");
  table.add("--op-cost-ns", number(0, 1e9), settings.op_cost_ns,
            "software of the benchmark per operation; I2-I6: 190");
  table.add("--op-cost", one_of<bool>({{"waits", false}, {"overlaps", true}}),
            settings.op_cost_overlaps,
            "waits (as fio's: after the operation's misses) or overlaps");
  table.add("--op-state", one_of<bool>({{"kept", false}, {"stored", true}}), settings.op_state,
            "kept in registers, or stored to a line of its own by each operation");
  table.add("--node", named(probe::nodes), settings.node, "local or remote");
  table.add("--dimms", count(1, 64), settings.dimms,
            "DIMMs per socket that memory is interleaved over (simulated)");
  table.add("--prefetch", one_of<bool>({{"on", true}, {"off", false}}), settings.prefetch,
            "on or off: hardware prefetchers (off: simulated)");
  using pm::Durability;
  table.add("--durability", one_of(std::array{Durability::adr, Durability::eadr, Durability::none}),
            settings.durability, "adr, eadr (nothing is flushed) or none; default: the target's");
  table.add("--variant", named(probe::variants), settings.variant,
            "I1: as_published, corrected or dependent");
  table.add_switch("--full", settings.full, "I1, I4, I5: every point of the publication");
}

void declare_probe_run(FlagTable& table, ProbeRequest& request) {
  driver::ProbeOptions& options = request.options;
  table.group("Run");
  table.add("--target", text("target"), options.target, "native (default) or sim:PLATFORM");
  table.add("--pool", text(), options.pool_path,
            "native: folder, file or device of the PM region (memory)");
  table.add_switch("--force", options.force, "native: overwrite an existing file or device");
  table.add("--operations", count(1, most_probe_operations), request.settings.operations,
            "per point, over all threads");
  table.add("--seconds", number(1e-4, 3600), options.seconds, "native: per bandwidth point (0.05)");
  table.add_switch("--quick", options.quick, "about a tenth of the accesses");
  table.add("--seed", count(), options.seed, "of the address orders (1)");
  table.add_list("--ablate", text("ablations", platform::ablation_names()), options.ablate,
                 "simulated: mechanisms switched off, see docs/platform-model.md");
  table.add("--jobs", count(1, most_probe_threads), options.jobs,
            "simulated: points at once (cores)");
  table.add_switch("--guard", options.guard, "simulated: fail when a store was missed");
}

Result<void> resolve_probes(ProbeFlags& flags) {
  std::vector<std::string> known;
  for (const probe::Probe& one : probe::probes()) known.emplace_back(one.name);
  known.emplace_back("all");
  if (flags.names.empty())
    return usage("no probe is named", "probe",
                 "give one of I1 ... I7, all, bandwidth, "
                 "latency, chase, write-buffer, loaded-latency, instructions");
  std::vector<std::string>& names = flags.request.names;
  const auto add = [&names](const std::string& probe) {
    if (std::ranges::find(names, probe) == names.end()) names.push_back(probe);
  };
  for (const std::string& given : flags.names) {
    if (std::ranges::find(known, given) == known.end()) return not_one_of(given, "probe", known);
    if (given != "all") add(given);
    for (const std::string& one : known)
      if (given == "all" && one.starts_with("I")) add(one);
  }
  return {};
}

Result<void> check_sweep(const ProbeFlags& flags) {
  const Settings& settings = flags.request.settings;
  for (const std::uint64_t size : settings.sizes)
    if (size % 64 != 0 && size != 8 && size != 16 && size != 32)
      return usage("is neither 8, 16, 32 nor a multiple of 64", "--sizes " + std::to_string(size),
                   "accesses are whole lines, or within one");
  if (flags.table.given("--region") && flags.table.given("--regions"))
    return usage("is given beside --region", "--regions", "give one of the two");
  const bool strides =
      std::ranges::find(settings.patterns, probe::Pattern::stride) != settings.patterns.end();
  if (strides != settings.stride_bytes.has_value())
    return strides ? usage("needs --stride", "--pattern stride", "say how many bytes")
                   : usage("is for --pattern stride", "--stride", "leave it out");
  if (settings.align_bytes && *settings.align_bytes % 64 != 0)
    return usage("is no multiple of 64", "--align " + std::to_string(*settings.align_bytes),
                 "accesses begin at the start of a line");
  if (settings.stride_bytes && *settings.stride_bytes % 64 != 0)
    return usage("is no multiple of 64", "--stride " + std::to_string(*settings.stride_bytes),
                 "accesses begin at the start of a line");
  return {};
}

// A flag that would change nothing is a misunderstanding.
Result<void> check_use(const ProbeFlags& flags) {
  const driver::ProbeOptions& options = flags.request.options;
  const FlagTable& table = flags.table;
  const auto has = [&](const char* probe) {
    return std::ranges::find(flags.request.names, probe) != flags.request.names.end();
  };
  for (const char* const flag : {"--variant", "--hit-ratios"})
    if (table.given(flag) && !has("I1")) return usage("is for the probe I1", flag, "leave it out");
  if (table.given("--mix-reads") && !has("bandwidth") && !has("loaded-latency"))
    return usage("is for the probes bandwidth and loaded-latency", "--mix-reads", "leave it out");
  for (const char* const flag : {"--readers", "--align"})
    if (table.given(flag) && !has("bandwidth"))
      return usage("is for the probe bandwidth", flag, "leave it out");
  if (options.target != "native" && !options.target.starts_with("sim:"))
    return not_one_of(options.target, "--target",
                      std::vector<std::string>{"native", "sim:optane100-8280l-2s"});
  const bool simulated = options.target != "native";
  for (const char* const flag : {"--jobs", "--guard", "--ablate"}) {
    // A list of commands for several targets may carry --jobs 1, which is what native does.
    const bool harmless = std::string_view(flag) == "--jobs" && options.jobs <= 1;
    if (!simulated && table.given(flag) && !harmless)
      return usage("is for simulated targets", flag, "leave it out, or give --target sim:PLATFORM");
  }
  for (const char* const flag : {"--pool", "--force", "--seconds"})
    if (simulated && table.given(flag))
      return usage("is for this machine", flag, "leave it out, or give --target native");
  if (table.given("--seconds") && table.given("--operations"))
    return usage("is given beside --operations", "--seconds", "give one of the two");
  return {};
}

}  // namespace

ProbeFlags::ProbeFlags() {
  table.add_words("probes", names,
                  "I1 ... I7, all; bandwidth, latency, chase, write-buffer, "
                  "loaded-latency, instructions");
  declare_sweep(table, request.settings);
  declare_setting(table, request.settings);
  declare_probe_run(table, request);
  table.group("Output");
  table.add_switch("--json", json, "print the document instead of tables");
  table.add("--output", text(), output, "write the document to this file too");
  table.add_switch("--dry-run", dry_run, "print the points, measure nothing");
  table.add_switch("--quiet", quiet, "no progress on stderr");
}

Result<ProbeRequest> resolve(ProbeFlags& flags) {
  if (auto assigned = flags.table.assign(); !assigned) return assigned.error();
  if (auto resolved = resolve_probes(flags); !resolved) return resolved.error();
  if (auto checked = check_sweep(flags); !checked) return checked.error();
  if (auto checked = check_use(flags); !checked) return checked.error();
  return flags.request;
}

Result<std::vector<probe::Point>> points_of(const ProbeRequest& request,
                                            const driver::ProbeDefaults& defaults) {
  Settings settings = request.settings;
  settings.region_bytes = defaults.region_bytes;
  settings.cached_region_bytes = defaults.cached_region_bytes;
  settings.most_threads = defaults.threads;
  settings.prefetch_switch = defaults.prefetch_switch;
  std::vector<probe::Point> points;
  for (const std::string& one : request.names) {
    const auto some = probe::points_of(one, settings);
    points.insert(points.end(), some.begin(), some.end());
  }
  if (points.empty())
    return usage("leave nothing to measure", "these flags", "blocks must fit their region");
  for (const probe::Point& point : points) {
    const std::uint64_t needed = std::max<std::uint64_t>(point.access_bytes, 64) * point.threads;
    if (point.region_bytes < needed)
      return usage("is too small for " + std::to_string(point.threads) + " threads that access " +
                       format_bytes(point.access_bytes) + " each",
                   "--region " + format_bytes(point.region_bytes),
                   "give " + format_bytes(needed) + " or more");
    if ((point.kind == probe::Kind::chase || point.kind == probe::Kind::loaded_latency) &&
        point.access_bytes % 64 != 0)
      return usage("are no multiples of 64", "--sizes", "a chased block is whole lines");
    if (point.kind == probe::Kind::write_buffer && point.region_bytes % 256 != 0)
      return usage("is no multiple of 256", "--regions " + std::to_string(point.region_bytes),
                   "the write buffer is probed by whole XPLines");
    if (point.readers != 0 && (point.readers >= point.threads || !point.writes()))
      return usage("leave no thread that writes", "--readers " + std::to_string(point.readers),
                   "give more --threads, and an --op that writes");
    if (point.align_bytes != 0 && point.pattern != probe::Pattern::rand)
      return usage("is for --pattern rand", "--align", "leave it out");
    if (point.kind == probe::Kind::loaded_latency && point.threads < 2)
      return usage("is too few", "--threads 1", "one thread chases, the others load the memory");
  }
  return points;
}

}  // namespace perdure::cli
