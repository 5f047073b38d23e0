// clock_cost: what the driver's ways of measuring latency cost in throughput: a clock reading after
// every operation, the default (one operation in so many, drawn at random), and none.
//
// Each index is loaded once, and the three loops of the driver (worker.h) run the same lookups over
// it in short turns, in changing order, so that other load on the machine affects all equally.
// Time is CPU time of the thread, which stops while another process has the core. A round gives
// one ratio to the loop without a clock; printed is the median with its 95 % interval.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "driver/load.h"
#include "driver/worker.h"
#include "index/registry.h"
#include "pm/pm.h"

namespace perdure::bench {
namespace {

using driver::BenchConfig;
using driver::Latency;

constexpr std::array methods = {Latency::off, Latency::sampled, Latency::every};

struct Plan {
  std::string indexes = "lbtree,hot,masstree,fptree,null";
  std::string folder = "/dev/shm";
  std::uint64_t records = 4'000'000;
  std::uint64_t operations = 200'000;  ///< of a turn
  std::uint64_t rounds = 21;
  std::uint64_t interval = BenchConfig::default_latency_interval;
};

double thread_seconds() noexcept {
  timespec at{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

BenchConfig config_of(const IndexInfo& index, const Plan& plan, Latency latency) {
  BenchConfig config;
  config.index = index;
  config.workload.records = plan.records;
  config.workload.limit_operations(plan.operations);
  config.latency = latency;
  config.latency_interval = static_cast<unsigned>(plan.interval);
  return config;
}

/// ns per operation of one turn.
double turn(driver::Worker<IntegerKeys>& worker, unsigned repetition, const Plan& plan) {
  const driver::Clock& clock = driver::Clock::get();
  driver::Rounds rounds(1, clock);
  double seconds = 0;
  worker.begin(repetition, plan.operations, false);
  rounds.work(
      0, true, [&] { return worker.fill(); },
      [&](driver::Ticks active, driver::Ticks start) {
        const double before = thread_seconds();
        worker.run(rounds, rounds.counter(0), active, start);
        seconds += thread_seconds() - before;
      },
      [&] { return worker.more(); });
  worker.finish();
  return seconds * 1e9 / static_cast<double>(plan.operations);
}

struct Interval {
  double low;
  double median;
  double high;
};

/// Order statistics: the median of a population lies between the outer two in 95 % of all samples.
Interval interval_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  const double spread = 1.96 * std::sqrt(count) / 2;
  const auto at = [&](double rank) {
    return values[static_cast<std::size_t>(std::clamp(rank, 0.0, count - 1))];
  };
  return {at(std::floor(count / 2 - spread)), at(count / 2), at(std::ceil(count / 2 + spread) - 1)};
}

struct Loaded {
  std::string path;
  std::unique_ptr<Pool> pool{};
  std::unique_ptr<driver::Instance<IntegerKeys>> instance{};
};

Result<Loaded> load(const BenchConfig& config, const Plan& plan) {
  Loaded loaded;
  if (config.uses_pool()) {
    loaded.path = plan.folder + "/perdure-clock-cost-" + std::to_string(getpid());
    auto pool = Pool::create({.path = loaded.path, .bytes = (128ULL << 20) + plan.records * 64});
    if (!pool) return pool.error();
    unlink(loaded.path.c_str());  // stays mapped, and is removed however the program ends
    loaded.pool = std::move(pool).value();
  }
  auto options = IndexRegistry::options(config.index, {});
  if (!options) return options.error();
  IndexPlace place;
  place.pool = loaded.pool.get();
  place.options = *options;
  auto index = create_index<IntegerKeys>(config.index, place);
  if (!index) return index.error();
  loaded.instance = std::make_unique<driver::Instance<IntegerKeys>>(config, 0);
  loaded.instance->index = std::move(index).value();
  driver::LoadFailure failure;
  driver::Loader<IntegerKeys> loader(loaded.instance->workload, *loaded.instance->index, 0, 1,
                                     failure);
  driver::Rounds rounds(1, driver::Clock::get());
  while (loader.fill()) loader.run(rounds, rounds.counter(0));
  if (failure.outcome() == Outcome::ok || config.index.index_class == IndexClass::harness)
    return loaded;
  return Error{ErrorCode::failed, "could not be loaded", config.index.name, "load fewer records"};
}

/// Prints the index's line. False: the default costs throughput.
Result<bool> measure(const std::string& name, const Plan& plan) {
  auto info = IndexRegistry::find(name);
  if (!info) return info.error();
  const BenchConfig first = config_of(**info, plan, Latency::off);
  auto loaded = load(first, plan);
  if (!loaded) return loaded.error();
  const std::array configs = {first, config_of(**info, plan, methods[1]),
                              config_of(**info, plan, methods[2])};
  std::vector<std::unique_ptr<driver::Worker<IntegerKeys>>> workers;
  for (const BenchConfig& config : configs)
    workers.push_back(std::make_unique<driver::Worker<IntegerKeys>>(config, *loaded->instance, 0,
                                                                    driver::Clock::get()));
  std::array<std::vector<double>, 3> ns;
  std::array<std::vector<double>, 3> ratios;
  for (unsigned round = 0; round < plan.rounds; ++round) {
    std::array<double, 3> now{};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t method = (i + round) % 3;
      now[method] = turn(*workers[method], round, plan);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      ns[i].push_back(now[i]);
      ratios[i].push_back(now[0] / now[i]);
    }
  }
  const Interval sampled = interval_of(ratios[1]);
  const Interval every = interval_of(ratios[2]);
  std::printf("%-12s %9.3f %9.3f %6.2f (%.2f-%.2f) %9.3f %6.2f (%.2f-%.2f)\n", name.c_str(),
              1e3 / interval_of(ns[0]).median, 1e3 / interval_of(ns[1]).median, sampled.median,
              sampled.low, sampled.high, 1e3 / interval_of(ns[2]).median, every.median, every.low,
              every.high);
  std::fflush(stdout);
  constexpr double tolerated = 0.98;  // two in a hundred, beyond what chance explains
  return sampled.high >= tolerated;
}

bool take(Plan& plan, std::string_view flag, std::string_view value) {
  if (flag == "--indexes") return plan.indexes = value, true;
  if (flag == "--folder") return plan.folder = value, true;
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != value.data() + value.size() || number == 0)
    return false;
  if (flag == "--records") return plan.records = number, true;
  if (flag == "--operations") return plan.operations = number, true;
  if (flag == "--rounds") return plan.rounds = number, true;
  if (flag == "--interval") return plan.interval = std::min<std::uint64_t>(number, 1'000'000), true;
  return false;
}

int run(int argc, char** argv) {
  Plan plan;
  for (int i = 1; i < argc; i += 2)
    if (i + 1 == argc || !take(plan, argv[i], argv[i + 1])) {
      std::fprintf(stderr,
                   "Usage: clock_cost [--indexes A,B] [--records N] [--operations N] [--rounds N]\n"
                   "                  [--interval N] [--folder PATH]\n");
      return 2;
    }
  pm::configure(pm::Durability::adr);
  std::printf(
      "lookups of one thread among %llu records, Mop/s of its CPU time; default: one "
      "operation in %llu is timed\n",
      static_cast<unsigned long long>(plan.records),
      static_cast<unsigned long long>(plan.interval));
  std::printf("%-12s %9s %9s %18s %9s %18s\n", "index", "no clock", "default", "to no clock",
              "every", "to no clock");
  bool costs_nothing = true;
  std::istringstream names(plan.indexes);
  for (std::string name; std::getline(names, name, ',');) {
    const auto measured = measure(name, plan);
    if (!measured) {
      std::fprintf(stderr, "clock_cost: %s\n", measured.error().line().c_str());
      return 1;
    }
    costs_nothing = costs_nothing && *measured;
  }
  std::printf(costs_nothing ? "the default is as fast as no clock\n"
                            : "the default is slower than no clock\n");
  return costs_nothing ? 0 : 1;
}

}  // namespace
}  // namespace perdure::bench

int main(int argc, char** argv) { return perdure::bench::run(argc, argv); }
