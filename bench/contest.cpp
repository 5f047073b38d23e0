#include "contest.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <span>
#include <thread>

#include "core/histogram.h"
#include "core/rng.h"
#include "driver/clock.h"

namespace perdure::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Error failed(const Contestant& contestant, Phase phase) {
  return {ErrorCode::failed, std::string(name_of(phase)) + " failed where it must succeed",
          contestant.name, ""};
}

/// Runs `work(thread)` on all threads from one start signal; seconds until the last is done.
template <class Work>
double time_threads(unsigned threads, Work&& work) {
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> crew;
  for (unsigned t = 0; t < threads; ++t)
    crew.emplace_back([&, t] {
      ready.fetch_add(1);
      while (!go.load()) std::this_thread::yield();
      work(t);
    });
  while (ready.load() < threads) std::this_thread::yield();
  const auto start = Clock::now();
  go = true;
  for (std::thread& thread : crew) thread.join();
  return seconds_since(start);
}

/// Paths of the pools, where a signal handler can read them.
std::array<std::array<char, 512>, 16> files{};

void remove_files(int signal) {
  for (const auto& file : files)
    if (file[0] != '\0') unlink(file.data());
  _exit(128 + signal);
}

void note_file(const std::string& path) {
  for (auto& file : files)
    if (file[0] == '\0' && path.size() < file.size()) {
      path.copy(file.data(), path.size());
      return;
    }
}

Result<IndexPlace> place_of(const Contestant& contestant) {
  auto info = IndexRegistry::find(contestant.index);
  if (!info) return info.error();
  auto options = IndexRegistry::options(*info.value(), {});
  if (!options) return options.error();
  IndexPlace place;
  place.pool = contestant.pool.get();
  place.options = options.value();
  place.threads = std::max(1U, std::thread::hardware_concurrency());
  place.huge_pages = contestant.huge_pages;
  return place;
}

/// Keys of one phase, made before the clock starts. Every thread has its own.
std::vector<std::uint64_t> draw_keys(Phase phase, const ContestPlan& plan, unsigned round,
                                     unsigned thread, std::uint64_t count) {
  Rng rng(plan.seed, round * 1024 + static_cast<unsigned>(phase) * 64 + thread);
  const bool absent = phase == Phase::insert || phase == Phase::remove ||
                      phase == Phase::insert_batch || phase == Phase::remove_batch;
  std::vector<std::uint64_t> keys(count);
  for (std::uint64_t i = 0; i < count; ++i)
    keys[i] = absent ? mix64(plan.records + (std::uint64_t{thread} << 40) + i)  // after a load
                     : mix64(rng.below(plan.records));
  return keys;
}

/// The same of a phase of batches: a call of the index for each batch.
std::uint64_t work_in_batches(IntegerIndex& index, Phase phase, std::span<const std::uint64_t> keys,
                              std::span<const std::uint64_t> values) {
  std::uint64_t wrong = 0;
  std::array<std::uint64_t, batch_operations> found{};
  std::array<Outcome, batch_operations> outcomes{};
  for (std::size_t first = 0; first < keys.size(); first += batch_operations) {
    const std::size_t n = std::min(batch_operations, keys.size() - first);
    const auto part = keys.subspan(first, n);
    const auto stored = values.subspan(first, n);
    const std::span answers(outcomes.data(), n);
    if (phase == Phase::lookup_batch) {
      index.lookup_batch(part, std::span(found.data(), n), answers);
    } else if (phase == Phase::update_batch) {
      index.update_batch(part, stored, answers);
    } else if (phase == Phase::insert_batch) {
      index.insert_batch(part, stored, answers);
    } else {
      index.remove_batch(part, answers);
    }
    for (const Outcome outcome : answers) wrong += outcome != Outcome::ok;
  }
  return wrong;
}

/// The timed loop of one thread; returns how many operations were not `ok`.
std::uint64_t work_through(IntegerIndex& index, Phase phase, const std::vector<std::uint64_t>& keys,
                           IntegerScan& scan) {
  std::uint64_t wrong = 0;
  std::uint64_t value = 0;
  switch (phase) {
    case Phase::lookup:
      for (const std::uint64_t key : keys) wrong += index.lookup(key, value) != Outcome::ok;
      break;
    case Phase::update:
      for (const std::uint64_t key : keys) wrong += index.update(key, ~key) != Outcome::ok;
      break;
    case Phase::insert:
      for (const std::uint64_t key : keys) wrong += index.insert(key, ~key) != Outcome::ok;
      break;
    case Phase::remove:
      for (const std::uint64_t key : keys) wrong += index.remove(key) != Outcome::ok;
      break;
    case Phase::scan:
      for (const std::uint64_t key : keys) {
        scan.clear();
        wrong += index.scan(key, scan_records, scan) == 0;
      }
      break;
    default:  // of a batch the keys are the values, too: no work of ours between the calls
      wrong = work_in_batches(index, phase, keys, keys);
  }
  return wrong;
}

Result<void> run_phase(Contestant& contestant, Phase phase, const ContestPlan& plan, unsigned round,
                       unsigned threads) {
  const std::uint64_t count = phase == Phase::scan ? plan.operations / 20 : plan.operations;
  std::vector<std::vector<std::uint64_t>> keys;
  std::vector<IntegerScan> scans(threads);
  for (unsigned t = 0; t < threads; ++t) {
    keys.push_back(draw_keys(phase, plan, round, t, count));
    scans[t].reserve(scan_records);
  }
  std::atomic<std::uint64_t> wrong{0};
  const double seconds = time_threads(threads, [&](unsigned t) {
    wrong += work_through(*contestant.tree, phase, keys[t], scans[t]);
  });
  if (wrong != 0) return failed(contestant, phase);
  contestant.rates[{phase, threads}].push_back(static_cast<double>(count * threads) / seconds /
                                               1e6);
  return {};
}

}  // namespace

const char* name_of(Phase phase) noexcept {
  static constexpr const char* names[] = {"lookup",       "update",       "insert",
                                          "scan",         "remove",       "lookup_batch",
                                          "update_batch", "insert_batch", "remove_batch"};
  return names[static_cast<std::size_t>(phase)];
}

double Contestant::median(Phase phase, unsigned threads) const {
  const auto found = rates.find({phase, threads});
  if (found == rates.end() || found->second.empty()) return 0;
  std::vector<double> sorted = found->second;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

void remove_files_when_interrupted() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, remove_files);
}

Result<void> prepare(Contestant& contestant, const ContestPlan& plan) {
  auto info = IndexRegistry::find(contestant.index);
  if (!info) return info.error();
  if (info.value()->index_class == IndexClass::persistent) {
    const std::string path =
        plan.folder + "/perdure-ratios-" + contestant.index + "-" + std::to_string(getpid());
    note_file(path);
    auto pool = Pool::create({.path = path,
                              .heap = HeapKind::slab,
                              .bytes = (128ULL << 20) + plan.records * 40,
                              .huge_pages = contestant.huge_pages});
    if (!pool) return pool.error();
    contestant.pool = std::move(pool).value();
  }
  auto place = place_of(contestant);
  if (!place) return place.error();
  auto tree = create_index<IntegerKeys>(*info.value(), place.value());
  if (!tree) return tree.error();
  contestant.tree = std::move(tree).value();
  std::atomic<std::uint64_t> wrong{0};
  const unsigned threads = place->threads;
  contestant.load_seconds = time_threads(threads, [&](unsigned t) {
    for (std::uint64_t i = t; i < plan.records; i += threads)
      if (contestant.tree->insert(mix64(i), i) != Outcome::ok) ++wrong;
  });
  if (wrong != 0) return failed(contestant, Phase::insert);
  const auto records = static_cast<double>(plan.records);
  auto dram = static_cast<double>(contestant.tree->dram_bytes());
  if (contestant.pool) {
    const HeapUsage usage = contestant.pool->heap().usage();
    contestant.pm_bytes_per_record = static_cast<double>(usage.reserved_bytes) / records;
    dram += static_cast<double>(usage.dram_bytes);
    contestant.pool_huge_page_bytes = contestant.pool->huge_page_bytes();
  }
  contestant.dram_bytes_per_record = dram / records;
  return {};
}

Result<void> run_round(std::vector<Contestant>& contestants, const ContestPlan& plan,
                       unsigned round, unsigned threads) {
  for (const Phase phase : phases)
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      Contestant& contestant = contestants[(i + round) % contestants.size()];
      if (phase >= Phase::lookup_batch && !contestant.batches) continue;
      if (auto done = run_phase(contestant, phase, plan, round, threads); !done) return done;
    }
  return {};
}

Result<void> measure_recovery(Contestant& contestant, const ContestPlan& plan) {
  if (!contestant.pool) return {};
  const std::string path = contestant.pool->path();
  contestant.tree->quiesce();
  contestant.tree.reset();
  if (auto done = contestant.pool->close(); !done) return done;
  contestant.pool.reset();
  const auto start = Clock::now();
  auto pool = Pool::open({.path = path, .huge_pages = contestant.huge_pages});
  if (!pool) return pool.error();
  contestant.pool = std::move(pool).value();
  auto place = place_of(contestant);
  if (!place) return place.error();
  auto tree = recover_index<IntegerKeys>(*IndexRegistry::find(contestant.index).value(), *place);
  unlink(path.c_str());
  if (!tree) return tree.error();
  contestant.tree = std::move(tree).value();
  std::uint64_t value = 0;
  (void)contestant.tree->lookup(draw_keys(Phase::lookup, plan, 0, 0, 1).front(), value);
  contestant.recovery_seconds = seconds_since(start);
  while (contestant.pool->is_recovering()) std::this_thread::yield();
  contestant.settled_seconds = seconds_since(start);
  if (contestant.tree->size() != plan.records)
    return Error{ErrorCode::failed, "records are missing after recovery", contestant.name, ""};
  return {};
}

Result<LoopCost> measure_loop() {
  auto info = IndexRegistry::find("null");
  if (!info) return info.error();
  auto tree = create_index<IntegerKeys>(*info.value(), {});
  if (!tree) return tree.error();
  ContestPlan plan;
  const auto keys = draw_keys(Phase::lookup, plan, 0, 0, 4'000'000);
  const auto each = [&](Clock::time_point start) {
    return seconds_since(start) * 1e9 / static_cast<double>(keys.size());
  };
  LoopCost cost;
  std::uint64_t value = 0;
  std::uint64_t answered = 0;
  auto start = Clock::now();
  for (const std::uint64_t key : keys) answered += (*tree)->lookup(key, value) == Outcome::ok;
  cost.bare_ns = each(start);
  const auto histogram = std::make_unique<Histogram>();
  const auto& clock = driver::Clock::get();
  start = Clock::now();
  driver::Ticks last = clock.now();
  for (const std::uint64_t key : keys) {
    answered += (*tree)->lookup(key, value) == Outcome::ok;
    const driver::Ticks now = clock.now();
    histogram->record(clock.to_ns(now - last));
    last = now;
  }
  cost.with_histogram_ns = each(start);
  return answered > 2 * keys.size() ? LoopCost{} : cost;
}

}  // namespace perdure::bench
