// How fast the crash explorer is, on one core: states judged in a second on trees of up to 256
// keys, and what its hooks cost a run without a crash.
//
// Usage: crash_speed [SECONDS]     seconds per figure (5)
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "crash/session.h"
#include "crash_operations.h"

namespace {

using namespace perdure;

crash::Summary explore(const IndexInfo& info, double seconds, unsigned deep_every) {
  pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb);
  pm::configure_transactions(pm::TransactionUse::off);
  crash::Plan plan;
  plan.subject = {&info, crash::small_options(info), std::size_t{1} << 20};
  plan.keys = bench::crash_keys;
  plan.preload = bench::crash_keys / 2;
  plan.operations = 128;
  plan.seconds = seconds;
  plan.bounds.deep_every = deep_every;
  crash::Bench bench(plan.subject.pool_bytes);
  return crash::explore_many(plan, bench, [](const crash::Summary&) {});
}

double hooked_ns(const IndexInfo& info, std::uint64_t operations) {
  crash::Memory memory(std::size_t{4} << 20);
  bench::SmallTree tree = bench::make_small_tree(info, {memory.base(), memory.bytes()});
  crash::Recorder recorder(memory.base(), memory.bytes(), {.threads = 1, .schedule = {}});
  const auto from = std::chrono::steady_clock::now();
  const auto run = recorder.run([&](unsigned) { bench::run_operations(*tree.index, operations); });
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - from;
  return run.trace.empty() ? 0 : took.count() / static_cast<double>(operations);
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
  std::printf("%-10s %14s %14s %12s %12s %8s\n", "index", "states/s", "deep states/s", "native ns",
              "hooked ns", "ratio");
  for (const IndexInfo& info : IndexRegistry::all()) {
    if (info.index_class != IndexClass::persistent) continue;
    const crash::Summary full = explore(info, seconds, never);
    const crash::Summary deep = explore(info, seconds, 1);
    const double native = native_ns(info, operations);
    const double hooked = hooked_ns(info, operations);
    const auto rate = [](const crash::Summary& of) {
      return static_cast<double>(of.coverage.states + of.coverage.recovery_cuts) /
             of.exploring_seconds;
    };
    std::printf("%-10s %14.0f %14.0f %12.1f %12.1f %8.2f\n", info.name.c_str(), rate(full),
                rate(deep), native, hooked, native > 0 ? hooked / native : 0);
    if (full.violation || deep.violation) return 5;
  }
  std::printf(
      "measured on this machine, one core; deep: a second cut inside recovery, continued\n"
      "workload, leak check in every state, each cut inside recovery counted\n");
  return 0;
}
