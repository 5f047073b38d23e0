// BenchConfig: everything that decides a run, resolved. The run record repeats it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "index/registry.h"
#include "lockfree/base/queue_registry.h"
#include "platform/model/machine.h"
#include "platform/model/platform.h"
#include "platform/runtime/simulation.h"
#include "pm/pm.h"
#include "pool/pool.h"
#include "workload/workload.h"

namespace perdure::driver {

/// Which operations have their latency measured.
enum class Latency : std::uint8_t {
  off,
  sampled,  ///< closed loops: one in so many, drawn at random; the others run without a clock
  every,    ///< a reading of the clock between any two, which keeps their misses from overlapping
};
[[nodiscard]] constexpr const char* name_of(Latency latency) noexcept {
  switch (latency) {
    case Latency::off:
      return "off";
    case Latency::sampled:
      return "sampled";
    case Latency::every:
      break;
  }
  return "every";
}

/// When operations start in an open loop.
enum class Arrivals : std::uint8_t { constant, poisson };
[[nodiscard]] constexpr const char* name_of(Arrivals arrivals) noexcept {
  return arrivals == Arrivals::constant ? "constant" : "poisson";
}

/// What the threads of a run share, and where they run: the study pmemids' parallel modes.
enum class Parallel : std::uint8_t {
  shared,     ///< one instance, with the lock it comes with
  single,     ///< one thread, no lock
  saturated,  ///< an instance for each thread, no lock: what the memory bears
  contended,  ///< one instance under one mutex
  numa,       ///< threads on the node without memory
};
[[nodiscard]] constexpr const char* name_of(Parallel parallel) noexcept {
  switch (parallel) {
    case Parallel::shared:
      return "shared";
    case Parallel::single:
      return "single";
    case Parallel::saturated:
      return "parallel-saturated";
    case Parallel::contended:
      return "concurrent-contended";
    case Parallel::numa:
      return "numa";
  }
  return "?";
}

/// The machine of a simulated run.
struct SimulatedMachine {
  platform::Platform platform;
  std::string fingerprint;     ///< of the platform
  std::vector<unsigned> cpus;  ///< of the platform, one per thread
  unsigned pool_node = 0;
  unsigned dram_node = 0;
  bool warm = true;  ///< fill the caches with operations of the workload after the load
  platform::Carrier carrier = platform::Carrier::fibers;
  platform::Ablation ablation;
  bool guard = false;           ///< fail when a byte of the pool changes without a hook
  std::string profile_path;     ///< where folded stacks go; empty: nowhere
  std::string host_times_path;  ///< where this machine's times go, apart from the record
};

/// What a run of a queue does. Of the threads the first are producers, the others consumers.
struct QueueRun {
  QueueInfo info;
  unsigned producers = 1;
  unsigned consumers = 1;
  std::size_t payload_bytes = 8;
  std::uint64_t prefill = 0;  ///< payloads in the queue when a repetition begins
};

/// The option of a queue whose slots are made for payloads of a length: a run makes them for its
/// own.
inline constexpr const char* payload_bytes_option = "payload_bytes";

struct ReplayRun;

/// Where the parts of an index lie that can lie apart.
struct Placement {
  std::string near;                 ///< as asked: "both", "index"
  std::vector<std::string> parts;   ///< their names, in the order of the pool's parts
  std::vector<unsigned> nodes;      ///< of each
  std::vector<unsigned> in_dram{};  ///< simulated: these parts are in DRAM
};

struct BenchConfig {
  /// `bench/clock_cost` shows that throughput is that of Latency::off with it.
  static constexpr unsigned default_latency_interval = 256;

  std::optional<SimulatedMachine> simulated;  ///< perdure-sim only, and always there

  IndexInfo index;  ///< from the registry or a plugin
  IndexOptions options;
  std::string plugin;  ///< path of a PiBench wrapper; empty: a registered index
                       ///< (`index` then describes the wrapper and creates nothing)

  std::optional<QueueRun> queue;  ///< `index` then describes it and creates nothing

  /// A recorded trace in place of the workload; `index` then describes the document store.
  std::shared_ptr<const ReplayRun> replay;

  workload::Workload workload;  ///< validated, key file open; operations or seconds is set
                                ///< (of a queue: pushes and think time, the rest says nothing)

  std::string pool_path;
  bool scratch_pool = false;     ///< simulated runs: in memory, and gone with the run
  std::uint64_t pool_bytes = 0;  ///< 0: chosen from the workload
  HeapKind heap = HeapKind::slab;
  std::optional<Placement> placement;  ///< empty: the pool has the parts that an option says
  bool reuse = false;
  bool force = false;
  bool huge_pages = true;
  bool bulk_load = false;

  pm::Durability durability = pm::Durability::adr;
  std::optional<pm::FlushInstruction> flush;  ///< empty: the best there is
  std::optional<pm::SimdLevel> simd;          ///< empty: the widest there is
  pm::TransactionUse transactions = pm::TransactionUse::automatic;

  unsigned threads = 1;
  Parallel parallel = Parallel::shared;
  LockKind lock = LockKind::readers_writer;  ///< of an index that leaves the choice
  bool pin = true;
  unsigned repetitions = 3;
  double warmup_seconds = 0;
  double rate_ops_s = 0;  ///< open loop, over all threads; 0: closed loop
  Arrivals arrivals = Arrivals::constant;

  bool slots = false;  ///< integer keys with values in slots, of 8 bytes, too
  bool verify = false;
  std::string answers_path;  ///< with `verify`: where every answer goes as text; empty: nowhere
  bool check = false;        ///< check_invariants at the end
  Latency latency = Latency::every;
  unsigned latency_interval = default_latency_interval;  ///< sampled: one in so many, on average
  bool export_histograms = false;

  [[nodiscard]] bool measures_latency() const noexcept { return latency != Latency::off; }
  [[nodiscard]] bool open_loop() const noexcept { return rate_ops_s > 0; }
  [[nodiscard]] KeyKind key_kind() const noexcept {
    if (workload.is_bytes()) return KeyKind::bytes;
    const bool only_slots = index.offers(KeyKind::slots) && !index.offers(KeyKind::integer);
    return slots || only_slots || workload.value_bytes != sizeof(std::uint64_t) ? KeyKind::slots
                                                                                : KeyKind::integer;
  }
  /// True when the index lives in a Pool (of any heap).
  [[nodiscard]] bool uses_pool() const noexcept {
    return perdure::uses_pool(index.index_class) && plugin.empty();
  }
  /// Of its pool, on a machine with so many nodes that hold any.
  [[nodiscard]] unsigned pool_parts(std::size_t nodes) const noexcept {
    return placement ? static_cast<unsigned>(placement->parts.size()) : options.pool_parts(nodes);
  }
  /// How many there are of the index, each with the workload's records.
  [[nodiscard]] unsigned instances() const noexcept {
    return parallel == Parallel::saturated ? threads : 1;
  }
  /// That the index keeps beside those of the workload.
  [[nodiscard]] unsigned background_threads() const noexcept {
    return static_cast<unsigned>(perdure::background_threads({index.name, index.options}, options) *
                                 instances());
  }
  /// How many operations are counted where `operations` of the workload are done: of a queue
  /// each payload is pushed and popped.
  [[nodiscard]] std::uint64_t counted_operations(std::uint64_t operations) const noexcept {
    return queue && queue->consumers != 0 ? 2 * operations : operations;
  }
  /// True when --pool names something this run creates or opens.
  [[nodiscard]] bool uses_path() const noexcept {
    return (uses_pool() && heap != HeapKind::dram) || index.index_class == IndexClass::on_disk ||
           (!plugin.empty() && !pool_path.empty());
  }
};

}  // namespace perdure::driver
