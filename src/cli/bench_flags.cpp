#include "cli/bench_flags.h"

#include <array>

#include "core/assert.h"
#include "platform/description/placement.h"

namespace perdure::cli {

namespace {

constexpr std::uint64_t most_repetitions = 1000;
constexpr std::uint64_t most_latency_interval = 1'000'000;

/// A value that src/workload reads, such as a mix.
template <class T>
Kind<T> described(const char* kind, Result<T> (*read)(std::string_view, std::string_view)) {
  return {kind, [read](const std::string& text, const std::string& flag) -> Result<T> {
            return read(text, flag);
          }};
}

Kind<unsigned> threads() {
  return {"count", [](const std::string& text, const std::string& flag) -> Result<unsigned> {
            if (text == "all") return BenchFlags::all_threads;
            const auto number = count().read(text, flag);
            if (!number) return number.error();
            const std::string most = std::to_string(pm::max_workers);
            if (*number < 1 || *number > pm::max_workers)
              return usage(
                  "out of range", flag + " " + text,
                  "this build has room for " + most + " threads: give 1 to " + most + ", or all");
            return static_cast<unsigned>(*number);
          }};
}

Kind<LatencyChoice> latency() {
  using driver::Latency;
  const auto read = [](const std::string& text, const std::string& flag) -> Result<LatencyChoice> {
    const auto colon = text.find(':');
    const auto method = one_of(std::array{Latency::sampled, Latency::every, Latency::off})
                            .read(text.substr(0, colon), flag);
    if (!method) return method.error();
    LatencyChoice choice{*method};
    if (colon == std::string::npos) return choice;
    const auto interval = count().read(text.substr(colon + 1), flag);
    if (!interval) return interval.error();
    if (*method != Latency::sampled || *interval < 1 || *interval > most_latency_interval)
      return usage("takes no such interval", flag + " " + text,
                   "give sampled:N, N from 1 to " + std::to_string(most_latency_interval));
    choice.interval = static_cast<unsigned>(*interval);
    return choice;
  };
  return {"latency", read};
}

void declare_what(FlagTable& table, BenchFlags& flags) {
  table.group("What");
  table.add("--index", text(), flags.index,
            "the index or queue, see `list indexes` and `list queues`");
  table.add("--mode", text("text", {"dram", "pmem-volatile", "pmem-persist", "pmem-trans"}),
            flags.mode,
            "of a structure: dram, pmem-volatile, pmem-persist or pmem-trans (default)");
  table.add("--plugin", text(), flags.plugin, "a PiBench wrapper (shared library) as the index");
  table.add_repeated("--option", text("options"), flags.options,
                     "name=value, an option of the index; repeatable");
  table.add("--target", text("target"), flags.target,
            "native (default), or sim:PLATFORM (a name, or a file)");
}

void declare_workload(FlagTable& table, BenchFlags& flags) {
  workload::Workload& workload = flags.config.workload;
  table.group("Workload (flags override the file)");
  table.add("--workload", text(), flags.workload, "a TOML file, or the name of one in workloads/");
  table.add("--records", count(), workload.records, "records loaded before the run: 10M");
  table.add("--key-range", count(1), workload.key_range,
            "lookups, inserts and removes take any of so many keys, loaded or not: a set's "
            "benchmark");
  table.add("--mix", described("shares", workload::parse_mix), workload.mix,
            "lookup=0.9,insert=0.1; also lookup_negative, upsert, update, remove, scan");
  table.add("--mix-steps", count(0, workload::most_mix_steps), workload.mix_steps,
            "256: shares rounded down to whole 256ths, the rest lookups, as a harness that picks "
            "operations by one byte; 0: exact shares (0)");
  table.add("--batch", count(1, workload::most_batch), workload.batch,
            "operations of one kind in one call: lookup_batch, insert_batch and so on; scans come "
            "one by one (1)");
  table.add("--distribution", described("text", workload::parse_distribution),
            workload.distribution,
            "uniform, zipfian[:0.99], self_similar[:0.2], latest[:0.99], sequential");
  table.add("--keys", described("text", workload::parse_keys), workload.keys,
            "mixed, golden, sequential; prefixed[:user], random[:16|:8-2048|:8-256~21], file:PATH "
            "(one key a line, or with --key-kind integer one integer a line, or SOSD); key sets: "
            "snowflake, clustered, ipv4, kmer; uuid, uuid_binary, kmer_text, email, url");
  table.add("--key-kind", one_of(std::array{KeyKind::integer, KeyKind::bytes, KeyKind::slots}),
            flags.key_kind, "integer, bytes or slots; --keys says it more exactly");
  table.add("--value-bytes", count(), workload.value_bytes,
            "length of the values; beside integer keys only of slots (8)");
  table.add("--scan-count", described("range", workload::parse_scan_count), workload.scan,
            "records per scan: 100 or 1-100");
  table.add("--load-order",
            one_of(std::array{workload::LoadOrder::random, workload::LoadOrder::sequential}),
            workload.load_order,
            "random or sequential (random; snowflake and clustered keys: sequential)");
  table.add("--seed", count(), workload.seed,
            "a whole number; the same seed gives the same operations");
}

void declare_queue(FlagTable& table, BenchFlags& flags) {
  driver::QueueRun& queue = flags.queue;
  table.group("Queues");
  table.add("--producers", count(1, pm::max_workers), queue.producers, "threads that push (1)");
  table.add("--consumers", count(0, pm::max_workers), queue.consumers, "threads that pop (1)");
  table.add("--payload", bytes(0, max_payload_bytes), queue.payload_bytes,
            "length of the payloads: 4KiB (8)");
  table.add("--prefill", count(), queue.prefill,
            "payloads in the queue before the run and between repetitions (0)");
}

void declare_run(FlagTable& table, BenchFlags& flags) {
  using driver::Arrivals;
  using driver::Parallel;
  driver::BenchConfig& config = flags.config;
  table.group("Run");
  table.add("--threads", threads(), config.threads, "a number, or all (1)");
  table.add("--parallel",
            one_of(std::array{Parallel::shared, Parallel::single, Parallel::saturated,
                              Parallel::contended, Parallel::numa}),
            config.parallel,
            "single, parallel-saturated (an index for each thread), concurrent-contended (one "
            "mutex), numa (threads on the node without memory); default: all threads share the "
            "index");
  table.add("--lock",
            one_of(std::array{LockKind::none, LockKind::readers_writer, LockKind::pthread,
                              LockKind::pthread_pm, LockKind::pmemobj, LockKind::buckets}),
            config.lock,
            "of a structure: none, rw (default), pthread, pthread-pm, pmemobj; buckets of "
            "hashtable");
  table.add("--operations", count(1), flags.operations,
            "per repetition, over all threads: 1M (simulated: 100K); of a queue: pushes, and as "
            "many pops");
  table.add("--seconds", number(), flags.seconds, "per repetition (3)");
  table.add("--warmup-seconds", number(), config.warmup_seconds,
            "before the first repetition (0.5 with --seconds; simulated: 0)");
  table.add("--repetitions", count(1, most_repetitions), config.repetitions,
            "how many (3; simulated: 1, they are exact)");
  table.add("--think-ns", count(0, workload::longest_think_ns), config.workload.think_ns,
            "each thread waits so long between operations, outside of their latency (0)");
  table.add("--rate", count(1), config.rate_ops_s,
            "open loop: operations per second over all threads");
  table.add("--arrivals", one_of(std::array{Arrivals::constant, Arrivals::poisson}),
            config.arrivals, "open loop: constant (default) or poisson");
  table.add_switch("--no-pin", config.pin, "leave the placing of threads to the system", false);
  table.add_switch("--bulk-load", config.bulk_load, "load in bulk instead of by inserts");
  table.add_switch("--verify", config.verify,
                   "check every answer against a model; of a queue: every payload, its order, and "
                   "that none is lost");
  table.add_switch("--check", config.check, "check the index's or queue's invariants at the end");
  table.add("--latency", latency(), flags.latency,
            "which operations are timed: sampled[:256] (one in so many, at random; default), every "
            "(a clock between any two, which lowers throughput; simulated runs and open loops), or "
            "off");
  table.add_switch("--no-histograms", flags.no_histograms, "the same as --latency off");
}

void declare_instructions(FlagTable& table, driver::BenchConfig& config) {
  using pm::FlushInstruction;
  using pm::SimdLevel;
  using pm::TransactionUse;
  table.add("--transactions",
            one_of<TransactionUse>({{"auto", TransactionUse::automatic},
                                    {"on", TransactionUse::on},
                                    {"off", TransactionUse::off}}),
            config.transactions,
            "auto (default: on under simulation, off natively), on or off: hardware transactions");
  table.add("--simd", one_of(std::array{SimdLevel::sse2, SimdLevel::avx2, SimdLevel::avx512}),
            config.simd, "sse2, avx2 or avx512 (the widest there is)");
  table.add("--flush",
            one_of(std::array{FlushInstruction::clwb, FlushInstruction::clflushopt,
                              FlushInstruction::clflush}),
            config.flush, "clwb, clflushopt or clflush (the best there is)");
}

void declare_memory(FlagTable& table, BenchFlags& flags) {
  using pm::Durability;
  driver::BenchConfig& config = flags.config;
  table.group("Memory");
  table.add("--pool", text(), config.pool_path,
            "file or device of the pool (on-disk indexes: a directory)");
  table.add("--placement", text(), flags.placement,
            "which parts of --index engine lie near to the threads: both, record-store, index or"
            " none; the others lie on another node (all together, where the pool is)");
  table.add("--pool-bytes", bytes(), config.pool_bytes,
            "size of a new pool: 4GiB (chosen from the workload)");
  table.add("--heap",
            one_of(std::array{HeapKind::slab, HeapKind::pmdk, HeapKind::dram, HeapKind::memkind}),
            config.heap, "slab (default), pmdk or dram; a structure takes the one of its mode");
  table.add("--durability", one_of(std::array{Durability::adr, Durability::eadr, Durability::none}),
            config.durability, "adr (default), eadr or none");
  table.add_switch("--reuse", config.reuse, "open and recover an existing pool, load nothing");
  table.add_switch("--force", config.force, "replace an existing pool");
  table.add_switch("--huge-pages", config.huge_pages, "use huge pages where there are any (on)");
  table.add_switch("--no-huge-pages", config.huge_pages, "use small pages only", false);
  declare_instructions(table, config);
}

void declare_replay_memory(FlagTable& table, BenchFlags& flags) {
  using pm::Durability;
  driver::BenchConfig& config = flags.config;
  table.group("Memory");
  table.add(
      "--pool", text(), config.pool_path,
      "file of the new pool, which `perdure serve` can serve afterwards (simulated: in memory,"
      " and gone with the run)");
  table.add("--placement", text(), flags.placement,
            "which parts lie near to the threads: both, record-store, index or none; the others lie"
            " on another node (all together, where the pool is)");
  table.add("--pool-bytes", bytes(), config.pool_bytes, "size of the pool (as it was recorded)");
  table.add("--engine-index", text(), flags.engine_index,
            "its index: any persistent one of byte strings (as it was recorded)");
  table.add("--durability", one_of(std::array{Durability::adr, Durability::eadr, Durability::none}),
            config.durability, "adr (default), eadr or none");
  table.add_switch("--force", config.force, "replace an existing pool");
  declare_instructions(table, config);
}

void declare_simulation(FlagTable& table, BenchFlags& flags, bool warms) {
  using platform::Carrier;
  driver::SimulatedMachine& machine = flags.machine;
  table.group("Simulated runs");
  table.add("--cpus", text(), flags.cpus,
            "where threads run: node0, 0-13, 0,2,4 (all, node 0 first)");
  table.add("--pool-node", count(), machine.pool_node,
            "the socket whose memory holds the pool (0)");
  table.add("--dram-node", count(), machine.dram_node,
            "the socket whose DRAM holds the rest (the first thread's)");
  table.add("--near", one_of<bool>({{"pm", false}, {"dram", true}}), flags.near_in_dram,
            "pm or dram: what the near parts lie in, as beside a pool on CXL memory (pm)");
  if (warms) {
    table.add_switch("--warm", machine.warm, "fill the caches after the load (on)");
    table.add_switch("--no-warm", machine.warm, "start with empty caches", false);
  }
  table.add("--carrier",
            one_of<Carrier>({{"fibers", Carrier::fibers}, {"threads", Carrier::threads}}),
            machine.carrier, "fibers or threads (fibers; threads for --heap pmdk)");
  table.add_repeated("--ablate", text("ablations", platform::ablation_names()), flags.ablate,
                     "leave a mechanism out: no-directory; repeatable");
  machine.guard = checked_build;
  table.add_switch("--guard", machine.guard,
                   "fail when a byte of the pool changes unseen (off; on in checked builds)");
  table.add_switch("--no-guard", machine.guard, "do not look for such bytes", false);
  table.add("--flamegraph", text(), machine.profile_path,
            "write virtual time by function: stacks.folded");
  table.add("--host-times", text(), machine.host_times_path,
            "write how long this machine took for each phase: times.json");
}

void declare_output(FlagTable& table, BenchFlags& flags) {
  driver::BenchConfig& config = flags.config;
  table.group("Output");
  table.add_switch("--json", flags.json, "print the run record instead of a table");
  table.add_switch("--export-histograms", config.export_histograms,
                   "put the latency histograms into the run record");
  table.add_switch("--dry-run", flags.dry_run, "print the resolved configuration, run nothing");
  table.add("--answers", text(), config.answers_path,
            "with --verify: write every answer, and the records at the end, as text");
  table.add_switch("--quiet", flags.quiet, "no progress and no warnings on stderr");
}

}  // namespace

BenchFlags::BenchFlags() : table("bench", "Runs one benchmark: load, warm-up, repetitions.") {
  declare_what(table, *this);
  declare_workload(table, *this);
  declare_queue(table, *this);
  declare_run(table, *this);
  declare_memory(table, *this);
  declare_simulation(table, *this, true);
  declare_output(table, *this);
}

BenchFlags::BenchFlags(Replay)
    : table("engine replay",
            "Executes what `perdure serve --record` has recorded on a new pool, here or simulated, "
            "and compares every answer and the contents at the end. Exit code 5: something "
            "differs.") {
  table.add_words("FILE", words, "the trace");
  table.group("Run");
  table.add("--target", text("target"), target,
            "native (default), or sim:PLATFORM (a name, or a file)");
  table.add("--threads", count(1, pm::max_workers), config.threads,
            "each key's operations stay in order (1: the recorded order)");
  declare_replay_memory(table, *this);
  declare_simulation(table, *this, false);
  table.group("Output");
  table.add_switch("--json", json, "as JSON");
  table.add_switch("--quiet", quiet, "no progress and no warnings on stderr");
}

}  // namespace perdure::cli
