#include "cli/probe_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/flags.h"
#include "core/units.h"

namespace perdure::cli {
namespace {

using probe::Settings;

constexpr std::uint64_t largest_region = std::uint64_t{1} << 44;
constexpr std::uint64_t largest_access = std::uint64_t{64} << 20;
constexpr std::uint64_t most_probe_threads = 1024;

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (true) {
    const std::size_t comma = text.find(',', from);
    parts.push_back(text.substr(from, comma - from));
    if (comma == std::string::npos) return parts;
    from = comma + 1;
  }
}

// A list of names, each once.
template <class T, std::size_t n>
Result<void> names(const ProbeFlags::Text& text, const char* flag,
                   const std::array<probe::Name<T>, n>& choices, std::vector<T>& to) {
  if (!text) return {};
  for (const std::string& part : parts_of(*text)) {
    const auto found =
        std::ranges::find_if(choices, [&](const probe::Name<T>& c) { return part == c.text; });
    if (found == choices.end()) {
      std::vector<std::string> all;
      for (const probe::Name<T>& choice : choices) all.emplace_back(choice.text);
      return not_one_of(part, flag, all);
    }
    if (std::ranges::find(to, found->value) == to.end()) to.push_back(found->value);
  }
  return {};
}

template <class T, std::size_t n>
Result<void> name(const ProbeFlags::Text& text, const char* flag,
                  const std::array<probe::Name<T>, n>& choices, std::optional<T>& to) {
  std::vector<T> list;
  if (auto read = names(text, flag, choices, list); !read) return read;
  if (list.size() > 1) return usage("takes one value", flag, "give one of them");
  if (!list.empty()) to = list.front();
  return {};
}

Result<double> number(const std::string& text, const char* flag, double least, double most) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || !std::isfinite(value))
    return usage("'" + text + "' is not a number", flag, "give a number such as 0.5");
  if (value < least || value > most)
    return usage("out of range", std::string(flag) + " " + text,
                 "give a number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

Result<void> numbers(const ProbeFlags::Text& text, const char* flag, double least, double most,
                     std::vector<double>& to) {
  if (!text) return {};
  for (const std::string& part : parts_of(*text)) {
    const auto value = number(part, flag, least, most);
    if (!value) return value.error();
    to.push_back(*value);
  }
  return {};
}

Result<void> sizes(const ProbeFlags::Text& text, const char* flag, std::uint64_t least,
                   std::uint64_t most, std::vector<std::uint64_t>& to) {
  if (!text) return {};
  for (const std::string& part : parts_of(*text)) {
    const auto bytes = parse_bytes(part, flag);
    if (!bytes) return bytes.error();
    if (*bytes < least || *bytes > most)
      return usage("out of range", std::string(flag) + " " + part,
                   "give " + format_bytes(least) + " to " + format_bytes(most));
    to.push_back(*bytes);
  }
  return {};
}

Result<void> count(const ProbeFlags::Text& text, const char* flag, std::uint64_t least,
                   std::uint64_t most, std::optional<std::uint64_t>& to) {
  if (!text) return {};
  const auto value = parse_count(*text, flag);
  if (!value) return value.error();
  if (*value < least || *value > most)
    return usage("out of range", std::string(flag) + " " + *text,
                 "give " + std::to_string(least) + " to " + std::to_string(most));
  to = *value;
  return {};
}

constexpr std::array<probe::Name<bool>, 2> op_costs = {{{false, "waits"}, {true, "overlaps"}}};
constexpr std::array<probe::Name<bool>, 2> on_off = {{{true, "on"}, {false, "off"}}};

class ProbeResolver {
 public:
  explicit ProbeResolver(const ProbeFlags& flags) : flags_(flags) {}

  Result<ProbeRequest> resolve() {
    using Step = Result<void> (ProbeResolver::*)();
    for (const Step step :
         {&ProbeResolver::probes, &ProbeResolver::what, &ProbeResolver::how_much,
          &ProbeResolver::fence, &ProbeResolver::options, &ProbeResolver::together})
      if (auto done = (this->*step)(); !done) return done.error();
    return std::move(request_);
  }

 private:
  Result<void> probes() {
    std::vector<std::string> known;
    for (const probe::Probe& one : probe::probes()) known.emplace_back(one.name);
    known.emplace_back("all");
    if (flags_.names.empty())
      return usage("no probe is named", "probe",
                   "give one of I1 ... I7, all, bandwidth, "
                   "latency, chase, write-buffer, loaded-latency, instructions");
    for (const std::string& given : flags_.names) {
      if (std::ranges::find(known, given) == known.end()) return not_one_of(given, "probe", known);
      if (given != "all") {
        if (!has(given)) request_.names.push_back(given);
        continue;
      }
      for (const std::string& one : known)
        if (one.starts_with("I") && !has(one)) request_.names.push_back(one);
    }
    return {};
  }

  [[nodiscard]] bool has(const char* probe) const { return has(std::string(probe)); }
  [[nodiscard]] bool has(const std::string& probe) const {
    return std::ranges::find(request_.names, probe) != request_.names.end();
  }

  Result<void> what() {
    Settings& s = request_.settings;
    if (auto read = names(flags_.memory, "--memory", probe::memories, s.memories); !read)
      return read;
    ProbeFlags::Text op = flags_.op;
    // The study's word for a store that is flushed.
    for (std::size_t at = 0; op && (at = op->find("pstore", at)) != std::string::npos;)
      op->replace(at, 6, "store+clwb");
    if (auto read = names(op, "--op", probe::ops, s.ops); !read) return read;
    if (auto read = names(flags_.pattern, "--pattern", probe::patterns, s.patterns); !read)
      return read;
    if (auto read = name(flags_.node, "--node", probe::nodes, s.node); !read) return read;
    if (auto read = name(flags_.variant, "--variant", probe::variants, s.variant); !read)
      return read;
    if (auto read = name(flags_.prefetch, "--prefetch", on_off, s.prefetch); !read) return read;
    if (auto read = name(flags_.op_cost, "--op-cost", op_costs, s.op_cost_overlaps); !read)
      return read;
    s.full = flags_.full;
    return {};
  }

  Result<void> how_much() {
    Settings& s = request_.settings;
    if (auto read = sizes(flags_.sizes, "--sizes", 8, largest_access, s.sizes); !read) return read;
    for (const std::uint64_t size : s.sizes)
      if (size % 64 != 0 && size != 8 && size != 16 && size != 32)
        return usage("is neither 8, 16, 32 nor a multiple of 64", "--sizes " + std::to_string(size),
                     "accesses are whole lines, or within one");
    if (flags_.region && flags_.regions)
      return usage("is given beside --region", "--regions", "give one of the two");
    if (auto read = sizes(flags_.region ? flags_.region : flags_.regions,
                          flags_.region ? "--region" : "--regions", 64, largest_region, s.regions);
        !read)
      return read;
    if (flags_.region && s.regions.size() > 1)
      return usage("takes one size", "--region", "give several with --regions");
    std::vector<std::uint64_t> stride;
    if (auto read = sizes(flags_.stride, "--stride", 8, largest_region, stride); !read) return read;
    if (stride.size() > 1) return usage("takes one size", "--stride", "run once for each");
    if (!stride.empty()) s.stride_bytes = stride.front();
    if (flags_.threads)
      for (const std::string& part : parts_of(*flags_.threads)) {
        std::optional<std::uint64_t> one;
        if (auto read = count(part, "--threads", 1, most_probe_threads, one); !read) return read;
        s.threads.push_back(static_cast<unsigned>(*one));
      }
    if (auto read = numbers(flags_.hit_ratios, "--hit-ratios", 0, 1, s.hit_ratios); !read)
      return read;
    if (auto read = numbers(flags_.mix_reads, "--mix-reads", 0, 1, s.mix_reads); !read) return read;
    std::vector<double> cost;
    if (auto read = numbers(flags_.op_cost_ns, "--op-cost-ns", 0, 1e9, cost); !read) return read;
    if (cost.size() > 1) return usage("takes one number", "--op-cost-ns", "run once for each");
    if (!cost.empty()) s.op_cost_ns = cost.front();
    std::optional<std::uint64_t> dimms;
    if (auto read = count(flags_.dimms, "--dimms", 1, 64, dimms); !read) return read;
    if (dimms) s.dimms = static_cast<unsigned>(*dimms);
    return count(flags_.operations, "--operations", 1, 10'000'000'000, s.operations);
  }

  Result<void> fence() {
    if (!flags_.fence) return {};
    const std::string& text = *flags_.fence;
    std::optional<std::uint64_t>& every = request_.settings.fence_every;
    if (text == "none") {
      every = 0;
    } else if (text == "each") {
      every = 1;
    } else if (text.starts_with("every=")) {
      return count(text.substr(6), "--fence every", 1, 1'000'000'000, every);
    } else {
      return usage("'" + text + "' is not known", "--fence", "give one of none, each, every=N");
    }
    return {};
  }

  Result<void> options() {
    driver::ProbeOptions& o = request_.options;
    o.target = flags_.target.value_or("native");
    if (o.target != "native" && !o.target.starts_with("sim:"))
      return not_one_of(o.target, "--target",
                        std::vector<std::string>{"native", "sim:optane100-8280l-2s"});
    o.pool_path = flags_.pool.value_or("");
    o.force = flags_.force;
    o.quick = flags_.quick;
    o.guard = flags_.guard;
    if (flags_.ablate) o.ablate = parts_of(*flags_.ablate);
    std::optional<std::uint64_t> seed;
    std::optional<std::uint64_t> jobs;
    if (auto read = count(flags_.seed, "--seed", 0, ~std::uint64_t{0}, seed); !read) return read;
    if (auto read = count(flags_.jobs, "--jobs", 1, most_probe_threads, jobs); !read) return read;
    o.seed = seed.value_or(o.seed);
    o.jobs = static_cast<unsigned>(jobs.value_or(0));
    if (flags_.seconds) {
      const auto seconds = number(*flags_.seconds, "--seconds", 1e-4, 3600);
      if (!seconds) return seconds.error();
      o.seconds = *seconds;
    }
    return {};
  }

  // A flag that would change nothing is a misunderstanding.
  Result<void> together() {
    const Settings& s = request_.settings;
    if ((!s.hit_ratios.empty() || s.variant) && !has("I1"))
      return usage("is for the probe I1", s.variant ? "--variant" : "--hit-ratios", "leave it out");
    if (!s.mix_reads.empty() && !has("bandwidth") && !has("loaded-latency"))
      return usage("is for the probes bandwidth and loaded-latency", "--mix-reads", "leave it out");
    const bool strides = std::ranges::find(s.patterns, probe::Pattern::stride) != s.patterns.end();
    if (strides != s.stride_bytes.has_value())
      return strides ? usage("needs --stride", "--pattern stride", "say how many bytes")
                     : usage("is for --pattern stride", "--stride", "leave it out");
    if (s.stride_bytes && *s.stride_bytes % 64 != 0)
      return usage("is no multiple of 64", "--stride " + std::to_string(*s.stride_bytes),
                   "accesses begin at the start of a line");
    const bool simulated = request_.options.target != "native";
    // A list of commands for several targets may carry --jobs 1, which is what native does.
    const bool jobs = request_.options.jobs > 1;
    if (!simulated && (!request_.options.ablate.empty() || flags_.guard || jobs))
      return usage("is for simulated targets",
                   jobs           ? "--jobs"
                   : flags_.guard ? "--guard"
                                  : "--ablate",
                   "leave it out, or give --target sim:PLATFORM");
    if (simulated && (flags_.pool || flags_.force || flags_.seconds))
      return usage("is for this machine",
                   flags_.pool    ? "--pool"
                   : flags_.force ? "--force"
                                  : "--seconds",
                   "leave it out, or give --target native");
    if (flags_.seconds && flags_.operations)
      return usage("is given beside --operations", "--seconds", "give one of the two");
    return {};
  }

  const ProbeFlags& flags_;
  ProbeRequest request_;
};

void declare_sweep(CLI::App& app, ProbeFlags& flags) {
  const auto add = [&app](const char* name, ProbeFlags::Text& to, const char* help) {
    app.add_option(name, to, help)->group("What is swept (lists: 64,256)");
  };
  add("--memory", flags.memory, "pm, dram");
  add("--op", flags.op, "load, store, store+clwb (or pstore), ntstore");
  add("--pattern", flags.pattern, "seq, rand, stride, same");
  add("--sizes", flags.sizes, "bytes per operation; chase: per block");
  add("--threads", flags.threads, "threads");
  add("--regions", flags.regions, "bytes of memory over all threads; chase, write-buffer: a list");
  add("--region", flags.region, "one of them");
  add("--hit-ratios", flags.hit_ratios, "I1: shares of the region that are in the cache");
  add("--mix-reads", flags.mix_reads, "share of reads among the operations: 0.67");
}

void declare_setting(CLI::App& app, ProbeFlags& flags) {
  const auto add = [&app](const char* name, ProbeFlags::Text& to, const char* help) {
    app.add_option(name, to, help)->group("Setting");
  };
  add("--stride", flags.stride, "bytes from access to access, with --pattern stride");
  add("--fence", flags.fence, "none, each or every=N operations");
  add("--op-cost-ns", flags.op_cost_ns, "software of the benchmark per operation; I2-I6: 190");
  add("--op-cost", flags.op_cost, "waits (as fio's: behind the operation's misses) or overlaps");
  add("--node", flags.node, "local or remote");
  add("--dimms", flags.dimms, "DIMMs per socket that memory is interleaved over (simulated)");
  add("--prefetch", flags.prefetch, "on or off: hardware prefetchers (off: simulated)");
  add("--variant", flags.variant, "I1: as_published, corrected or dependent");
  app.add_flag("--full", flags.full, "I1, I4, I5: every point of the publication")
      ->group("Setting");
}

void declare_run(CLI::App& app, ProbeFlags& flags) {
  const auto add = [&app](const char* name, ProbeFlags::Text& to, const char* help) {
    app.add_option(name, to, help)->group("Run");
  };
  add("--target", flags.target, "native (default) or sim:PLATFORM");
  add("--pool", flags.pool, "native: folder, file or device of the PM region (memory)");
  app.add_flag("--force", flags.force, "native: overwrite an existing file or device")
      ->group("Run");
  add("--operations", flags.operations, "per point, over all threads");
  add("--seconds", flags.seconds, "native: per bandwidth point (0.05)");
  app.add_flag("--quick", flags.quick, "about a tenth of the accesses")->group("Run");
  add("--seed", flags.seed, "of the address orders (1)");
  add("--ablate", flags.ablate, "simulated: mechanisms switched off, see docs/platform-model.md");
  add("--jobs", flags.jobs, "simulated: points at once (cores)");
  app.add_flag("--guard", flags.guard, "simulated: fail when a store was missed")->group("Run");
}

}  // namespace

void declare(CLI::App& app, ProbeFlags& flags) {
  app.add_option("probes", flags.names,
                 "I1 ... I7, all; bandwidth, latency, chase, write-buffer, "
                 "loaded-latency, instructions");
  declare_sweep(app, flags);
  declare_setting(app, flags);
  declare_run(app, flags);
  app.add_flag("--json", flags.json, "print the document instead of tables")->group("Output");
  app.add_option("--output", flags.output, "write the document to this file too")->group("Output");
  app.add_flag("--dry-run", flags.dry_run, "print the points, measure nothing")->group("Output");
  app.add_flag("--quiet", flags.quiet, "no progress on stderr")->group("Output");
}

Result<ProbeRequest> resolve(const ProbeFlags& flags) { return ProbeResolver(flags).resolve(); }

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
    if (point.kind == probe::Kind::loaded_latency && point.threads < 2)
      return usage("is too few", "--threads 1", "one thread chases, the others load the memory");
  }
  return points;
}

}  // namespace perdure::cli
