// How fast the crash explorer is, on one core: states judged in a second on trees of up to 256
// keys, and what its hooks cost a run without a crash.
//
// Usage: crash_speed [SECONDS [INDEX...]]     seconds per figure (5); all persistent indexes
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "crash/search.h"
#include "crash_operations.h"
#include "pm/pm.h"

namespace {

using namespace perdure;

struct Rate {
  double states;      ///< judged in a second of processor time
  double recoveries;  ///< the others differ from one of these in what nothing reads
};

/// With `entries` records in a node.
Rate rate(const IndexInfo& info, double seconds, unsigned deep_every, std::uint64_t entries) {
  if (const auto done = pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb); !done) {
    std::fprintf(stderr, "crash_speed: %s\n", done.error().line().c_str());
    std::exit(1);
  }
  crash::Plan plan;
  plan.subject = {&info, crash::small_options(info), std::size_t{1} << 20};
  for (const IndexOption& option : info.options)
    if (option.name.ends_with("entries"))
      plan.subject.options.set(option.name, std::clamp(entries, option.least, option.most));
  plan.keys = bench::crash_keys;
  plan.preload = bench::crash_keys / 2;
  plan.operations = 128;
  plan.seconds = seconds;
  plan.bounds.deep_every = deep_every;
  crash::Workspace workspace(plan.subject.pool_bytes);
  const double from = bench::cpu_seconds();
  const crash::Summary summary = crash::explore_many(plan, workspace, [](const crash::Summary&) {});
  const double took = bench::cpu_seconds() - from;
  if (summary.violation) {
    std::fprintf(stderr, "crash_speed: %s: violation: %s\n", info.name.c_str(),
                 summary.violation->what.c_str());
    std::exit(5);
  }
  const crash::Coverage& coverage = summary.coverage;
  const std::uint64_t states = coverage.states + coverage.recovery_cuts;
  return {static_cast<double>(states) / took, static_cast<double>(states - coverage.alike) / took};
}

/// The indexes that `argv` names after the seconds, or all.
std::vector<const IndexInfo*> chosen(int argc, char** argv) {
  std::vector<const IndexInfo*> indexes;
  for (const IndexInfo& info : IndexRegistry::all()) {
    if (!info.recovers(KeyKind::integer) || info.index_class != IndexClass::persistent) continue;
    if (!info.replaces) continue;  // its operations are those of a tree
    if (argc <= 2 || std::find(argv + 2, argv + argc, info.name) != argv + argc)
      indexes.push_back(&info);
  }
  return indexes;
}

double hooked_ns(const IndexInfo& info, std::uint64_t operations) {
  crash::Memory memory(std::size_t{4} << 20);
  bench::SmallTree tree = bench::make_small_tree(info, {memory.base(), memory.bytes()});
  crash::Recorder::Options options;
  options.most_steps = ~std::uint64_t{0};
  crash::Recorder recorder(memory.base(), memory.bytes(), options);
  // In many runs, as explorations are, whose traces are short.
  constexpr std::uint64_t run_length = 500;
  Rng rng(1, 1);
  double took = 0;
  for (std::uint64_t done = 0; done < 2 * operations; done += run_length) {
    const auto run = recorder.run([&](unsigned) {
      const double from = bench::cpu_seconds();
      bench::run_operations(*tree.index, rng, run_length);
      if (done >= operations) took += bench::cpu_seconds() - from;
    });
    if (run.trace.empty()) return 0;
  }
  return 1e9 * took / static_cast<double>(operations);
}

double native_ns(const IndexInfo& info, std::uint64_t operations) {
  const std::string command = CRASH_NATIVE " " + info.name + " " + std::to_string(operations);
  std::FILE* const pipe = popen(command.c_str(), "r");
  double answer = 0;
  if (pipe == nullptr || std::fscanf(pipe, "%lf", &answer) != 1) answer = 0;
  if (pipe != nullptr) pclose(pipe);
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  constexpr std::uint64_t operations = 20'000;
  constexpr unsigned never = ~0U;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("%-10s %8s %12s %12s %14s %16s\n", "index", "entries", "states/s", "recoveries/s",
              "deep states/s", "deep recoveries/s");
  const std::vector<const IndexInfo*> indexes = chosen(argc, argv);
  for (const IndexInfo* const index : indexes) {
    const IndexInfo& info = *index;
    for (const std::uint64_t entries : {4U, 32U}) {
      const Rate plain = rate(info, seconds, never, entries);
      const Rate deep = rate(info, seconds, 1, entries);
      std::printf("%-10s %8llu %12.0f %12.0f %14.0f %16.0f\n", info.name.c_str(),
                  static_cast<unsigned long long>(entries), plain.states, plain.recoveries,
                  deep.states, deep.recoveries);
    }
  }
  std::printf("\n%-10s %12s %12s %8s\n", "index", "native ns", "hooked ns", "ratio");
  for (const IndexInfo* const index : indexes) {
    const IndexInfo& info = *index;
    const double native = native_ns(info, operations);
    const double hooked = hooked_ns(info, operations);
    if (native > 0 && hooked > 0)
      std::printf("%-10s %12.1f %12.1f %8.2f\n", info.name.c_str(), native, hooked,
                  hooked / native);
    else  // more steps than a recorder takes, or no answer
      std::printf("%-10s %12.1f %12s %8s\n", info.name.c_str(), native, "-", "-");
  }
  std::printf(
      "measured here, in seconds of processor time of one core; trees of up to %llu keys; deep: a\n"
      "second cut inside recovery, continued workload and leak check in every state; each cut\n"
      "inside recovery counts as a state; those without a recovery differ from one that had one\n"
      "only in what nothing reads\n",
      static_cast<unsigned long long>(bench::crash_keys));
  return 0;
}
