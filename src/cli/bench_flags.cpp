#include "cli/bench_flags.h"

namespace perdure::cli {

namespace {

void declare_what(CLI::App& app, BenchFlags& flags) {
  app.add_option("--index", flags.index, "the index, see `list indexes`")->group("What");
  app.add_option("--mode", flags.mode,
                 "of a structure: dram, pmem-volatile, pmem-persist or pmem-trans (default)")
      ->group("What");
  app.add_option("--plugin", flags.plugin, "a PiBench wrapper (shared library) as the index")
      ->group("What");
  app.add_option("--option", flags.options, "name=value, an option of the index; repeatable")
      ->group("What")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--target", flags.target, "native (default), or sim:PLATFORM (a name, or a file)")
      ->group("What");
}

void declare_workload(CLI::App& app, BenchFlags& flags) {
  const auto add = [&app](const char* name, BenchFlags::Text& to, const char* help) {
    app.add_option(name, to, help)->group("Workload (flags override the file)");
  };
  add("--workload", flags.workload, "a TOML file, or the name of one in workloads/");
  add("--records", flags.records, "records loaded before the run: 10M");
  add("--mix", flags.mix,
      "lookup=0.9,insert=0.1; also lookup_negative, upsert, update, remove, scan");
  add("--distribution", flags.distribution,
      "uniform, zipfian[:0.99], self_similar[:0.2], latest[:0.99], sequential");
  add("--keys", flags.keys,
      "mixed, golden, sequential; prefixed[:user], random[:16|:8-2048|:8-256~21], file:PATH "
      "(one key a line, or with --key-kind integer one integer a line, or SOSD)");
  add("--key-kind", flags.key_kind, "integer, bytes or slots; --keys says it more exactly");
  add("--value-bytes", flags.value_bytes,
      "length of the values; beside integer keys only of slots (8)");
  add("--scan-count", flags.scan_count, "records per scan: 100 or 1-100");
  add("--load-order", flags.load_order, "random or sequential");
  add("--seed", flags.seed, "a whole number; the same seed gives the same operations");
}

void declare_run(CLI::App& app, BenchFlags& flags) {
  const auto add = [&app](const char* name, BenchFlags::Text& to, const char* help) {
    app.add_option(name, to, help)->group("Run");
  };
  add("--threads", flags.threads, "a number, or all (1)");
  add("--parallel", flags.parallel,
      "single, parallel-saturated (an index for each thread), concurrent-contended (one mutex), "
      "numa (threads on the node without memory); default: all threads share the index");
  add("--lock", flags.lock,
      "of a structure: none, rw (default), pthread, pthread-pm, pmemobj; buckets of hashtable");
  add("--operations", flags.operations, "per repetition, over all threads: 1M (simulated: 100K)");
  add("--seconds", flags.seconds, "per repetition (3)");
  add("--warmup-seconds", flags.warmup_seconds,
      "before the first repetition (0.5 with --seconds; simulated: 0)");
  add("--repetitions", flags.repetitions, "how many (3; simulated: 1, they are exact)");
  add("--rate", flags.rate, "open loop: operations per second over all threads");
  add("--arrivals", flags.arrivals, "open loop: constant (default) or poisson");
  app.add_flag("--no-pin", flags.no_pin, "leave the placing of threads to the system")
      ->group("Run");
  app.add_flag("--bulk-load", flags.bulk_load, "load in bulk instead of by inserts")->group("Run");
  app.add_flag("--verify", flags.verify, "check every answer against a model")->group("Run");
  app.add_flag("--check", flags.check, "check the index's invariants at the end")->group("Run");
  add("--latency", flags.latency,
      "which operations are timed: sampled[:256] (one in so many, at random; default), every (a "
      "clock between any two, which lowers throughput; simulated runs and open loops), or off");
  app.add_flag("--no-histograms", flags.no_histograms, "the same as --latency off")->group("Run");
}

void declare_memory(CLI::App& app, BenchFlags& flags) {
  const auto add = [&app](const char* name, BenchFlags::Text& to, const char* help) {
    app.add_option(name, to, help)->group("Memory");
  };
  add("--pool", flags.pool, "file or device of the pool (on-disk indexes: a directory)");
  add("--pool-bytes", flags.pool_bytes, "size of a new pool: 4GiB (chosen from the workload)");
  add("--heap", flags.heap, "slab (default), pmdk or dram; a structure takes the one of its mode");
  add("--durability", flags.durability, "adr (default), eadr or none");
  app.add_flag("--reuse", flags.reuse, "open and recover an existing pool, load nothing")
      ->group("Memory");
  app.add_flag("--force", flags.force, "replace an existing pool")->group("Memory");
  app.add_flag("--huge-pages,!--no-huge-pages", flags.huge_pages, "ask for huge pages (on)")
      ->group("Memory");
  add("--transactions", flags.transactions,
      "auto (default: on under simulation, off natively), on or off: hardware transactions");
  add("--simd", flags.simd, "sse2, avx2 or avx512 (the widest there is)");
  add("--flush", flags.flush, "clwb, clflushopt or clflush (the best there is)");
}

void declare_simulation(CLI::App& app, BenchFlags& flags) {
  constexpr const char* group = "Simulated runs";
  const auto add = [&app](const char* name, BenchFlags::Text& to, const char* help) {
    app.add_option(name, to, help)->group(group);
  };
  const auto add_switch = [&app](const char* yes, const char* no, std::optional<bool>& to,
                                 const char* help, const char* without) {
    app.add_flag_callback(
           yes, [&to] { to = true; }, help)
        ->group(group);
    app.add_flag_callback(
           no, [&to] { to = false; }, without)
        ->group(group);
  };
  add("--cpus", flags.cpus, "where threads run: node0, 0-13, 0,2,4 (all, node 0 first)");
  add("--pool-node", flags.pool_node, "the socket whose memory holds the pool (0)");
  add("--dram-node", flags.dram_node, "the socket whose DRAM holds the rest (the first thread's)");
  add_switch("--warm", "--no-warm", flags.warm, "fill the caches after the load (on)",
             "start with empty caches");
  add("--carrier", flags.carrier, "fibers or threads (fibers; threads for --heap pmdk)");
  app.add_option("--ablate", flags.ablate, "leave a mechanism out: no-directory; repeatable")
      ->group(group)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_switch("--guard", "--no-guard", flags.guard,
             "fail when a byte of the pool changes unseen (off; on in checked builds)",
             "do not look for such bytes");
  add("--flamegraph", flags.flamegraph, "write virtual time by function: stacks.folded");
  add("--host-times", flags.host_times,
      "write how long this machine took for each phase: times.json");
}

void declare_output(CLI::App& app, BenchFlags& flags) {
  app.add_flag("--json", flags.json, "print the run record instead of a table")->group("Output");
  app.add_flag("--export-histograms", flags.export_histograms,
               "put the latency histograms into the run record")
      ->group("Output");
  app.add_flag("--dry-run", flags.dry_run, "print the resolved configuration, run nothing")
      ->group("Output");
  app.add_option("--answers", flags.answers,
                 "with --verify: write every answer, and the records at the end, as text")
      ->group("Output");
  app.add_flag("--quiet", flags.quiet, "no progress and no warnings on stderr")->group("Output");
}

}  // namespace

void declare(CLI::App& app, BenchFlags& flags) {
  declare_what(app, flags);
  declare_workload(app, flags);
  declare_run(app, flags);
  declare_memory(app, flags);
  declare_simulation(app, flags);
  declare_output(app, flags);
}

}  // namespace perdure::cli
