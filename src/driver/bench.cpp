#include "driver/bench.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "core/output_file.h"
#include "driver/answers.h"
#include "driver/build_info.h"
#include "driver/instance.h"
#include "driver/interrupt.h"
#include "driver/load.h"
#include "driver/pool_setup.h"
#include "driver/records.h"
#include "driver/target.h"
#include "driver/warnings.h"
#include "driver/worker.h"
#include "pibench/plugin_index.h"
#include "platform/description/placement.h"
#include "pool/file.h"

namespace perdure::driver {
namespace {

// Enough to fill the last-level caches of the sockets that run threads several times over; never
// more than the records make sense for: each is touched twice, by operations of one record or by
// scans of many.
std::uint64_t operations_that_warm(const BenchConfig& config) {
  const platform::Platform& platform = config.simulated->platform;
  const std::vector<unsigned>& cpus = config.simulated->cpus;
  std::set<unsigned> sockets;
  for (std::size_t t = 0; t < std::min<std::size_t>(config.threads, cpus.size()); ++t)
    sockets.insert(platform::node_of(platform, cpus[t]));
  const platform::CoreParameters& cpu = platform.cpu;
  const std::uint64_t lines = cpu.llc_per_core.bytes * cpu.cores_per_socket * sockets.size() / 64;
  const workload::Workload& workload = config.workload;
  const double scans = workload.mix.share(workload::Operation::scan);
  const double records_per_scan = 0.5 * (workload.scan.min + workload.scan.max);
  const double records_each = 1 - scans + scans * std::max(1.0, records_per_scan);
  const auto operations = static_cast<std::uint64_t>(
      2 * static_cast<double>(workload.records * config.instances()) / records_each);
  return std::clamp<std::uint64_t>(operations, 1000, lines / 2);
}

template <class Keys>
class Session {
 public:
  Session(const BenchConfig& config, Progress& progress)
      : config_(config), progress_(progress), clock_(Clock::get()) {}

  Result<BenchResult> run() {
    auto result = go();
    if (!result.ok())
      static_cast<void>(close());  // what is kept must open clean; the first error counts
    return result;
  }

 private:
  Result<BenchResult> go() {
    if (!config_.answers_path.empty()) {
      auto file = OutputFile::open(config_.answers_path);
      if (!file) return file.error();
      answers_file_.emplace(std::move(file).value());
    }
    if (auto fits = check_room(); !fits) return fits.error();
    auto target = Target::start(config_);
    if (!target) return target.error();
    target_ = std::move(target).value();
    // Where the target puts what its threads read, which under simulation is no matter of chance.
    for (unsigned n = 0; n < config_.instances(); ++n) instances_.emplace_back(config_, n);
    if (auto opened = open_index(); !opened) return opened.error();
    if (!config_.reuse)
      if (auto loaded = load(); !loaded) return loaded.error();
    if (interrupted()) return finish();
    if (!config_.scratch_pool) site_->keep();
    Result<void> known;
    target_->run_alone(Accounting::off, [&] {
      for (Instance<Keys>& each : instances_) each.index->quiesce();
      measure_memory();
      prepare_verifiers();
      for (Instance<Keys>& each : instances_)
        if (config_.reuse && known) known = look_at_reused(each);
    });
    if (!known) return known.error();
    repeat();
    if (!interrupted())
      if (auto checked = check_everything(); !checked) return checked.error();
    return finish();
  }

  // Before a simulation starts, in which it would move what is allocated later.
  Result<void> check_room() const {
    if (auto fits = check_memory(config_, memory_room()); !fits) return fits;
    if (!config_.simulated || config_.reuse || !(config_.uses_pool() || config_.uses_path()))
      return {};
    const auto bytes = choose_pool_bytes(config_, room_of(config_));
    memory_was_looked_at.store(true);
    return bytes ? Result<void>() : bytes.error();
  }

  Result<void> check_everything() {
    target_->run_alone(Accounting::off, [&] {
      if (config_.verify) check_answers();
      for (Instance<Keys>& each : instances_)
        if (config_.check && !result_.broken_invariant) check_invariants(*each.index);
    });
    if (auto kept = target_->check(); !kept) return kept;
    // The result is worth more than what goes beside it: it is printed even so.
    for (const auto& written : {write_answers(), target_->write_profile()})
      if (!written && !result_.unwritten) result_.unwritten = written.error();
    return {};
  }

  Result<void> write_answers() {
    if (!answers_file_) return {};
    Result<void> written;
    for (const auto& worker : workers_)
      if (written) written = answers_file_->write(worker->answers());
    if (written) written = answers_file_->write(records_);
    return written ? answers_file_->publish() : written;
  }

  Result<void> open_index() {
    Result<void> opened;
    const Ticks start = clock_.now();
    target_->run_alone(Accounting::off, [&] { opened = open_site(); });
    if (!opened) return opened;
    if (const Pool* const pool = site_->pool()) target_->add_pool(*pool);
    // What recovers is measured, what creates is not.
    target_->run_alone(config_.reuse ? Accounting::on : Accounting::off, [&] {
      for (Instance<Keys>& each : instances_)
        if (opened) opened = make_index(each);
    });
    if (!opened) return opened;
    result_.pool_bytes = site_->bytes();
    result_.medium = site_->medium();
    result_.heap = site_->pool() == nullptr ? "none" : name_of(site_->pool()->heap_kind());
    if (!config_.reuse) return {};
    RecoveryResult recovery;
    recovery.seconds = clock_.to_seconds(clock_.now() - start);
    recovery.simulated = target_->last_run();
    target_->run_alone(Accounting::off, [&] {
      for (const Instance<Keys>& each : instances_) recovery.records += each.index->size();
    });
    if (const Pool* const pool = site_->pool()) {
      recovery.clean = pool->was_clean();
      recovery.leaked_blocks_freed = pool->leaked_blocks_freed();
    }
    result_.recovery = recovery;
    return {};
  }

  Result<void> open_site() {
    auto site = PoolSite::prepare(config_);
    if (!site) return site.error();
    site_ = std::move(site).value();
    return {};
  }

  Result<void> make_index(Instance<Keys>& instance) {
    IndexPlace place;
    place.pool = site_->pool();
    place.root_name = instance.root_name;
    place.lock = config_.lock;
    place.path = config_.uses_path() ? config_.pool_path : "";
    place.capacity_bytes = site_->bytes();
    place.options = config_.options;
    // A simulation has the threads it was given, and none that an index makes.
    place.threads = Target::simulates ? 1 : config_.threads;
    place.huge_pages = config_.huge_pages;
    progress_.show(config_.reuse ? "recover" : "create", -1, 0);
    auto index = !config_.plugin.empty() ? open_plugin()
                 : config_.reuse         ? recover_index<Keys>(config_.index, place)
                                         : create_index<Keys>(config_.index, place);
    if (!index) return index.error();
    instance.index = std::move(index).value();
    return {};
  }

  Result<std::unique_ptr<OrderedIndex<Keys>>> open_plugin() {
    PluginOptions options;
    options.library = config_.plugin;
    options.pool_path = config_.pool_path;
    options.pool_bytes = site_->bytes();
    options.threads = config_.threads;
    if constexpr (has_text_keys<Keys>) {
      options.key_bytes = workload::KeySpace(config_.workload).longest();
      options.value_bytes = config_.workload.value_bytes;
    }
    return load_plugin<Keys>(options);
  }

  Result<void> load() {
    if (config_.bulk_load) {
      Result<void> loaded;
      target_->run_alone(Accounting::off, [&] {
        for (Instance<Keys>& each : instances_)
          if (loaded) loaded = load_in_bulk(each);
      });
      return loaded;
    }
    LoadFailure failure;
    std::vector<std::unique_ptr<Loader<Keys>>> loaders(config_.threads);
    Rounds rounds(config_.threads, clock_, target_->filling());
    const auto job = [&](unsigned thread) {
      // Built by its own thread, so that its memory lies on the thread's node.
      Instance<Keys>& instance = instance_of(thread);
      const workload::Place place = instance.place(thread);
      loaders[thread] = std::make_unique<Loader<Keys>>(instance.workload, *instance.index,
                                                       place.thread, place.threads, failure);
      Loader<Keys>& loader = *loaders[thread];
      rounds.work(
          thread, false, [&] { return loader.fill(); },
          [&](Ticks, Ticks) { loader.run(rounds, rounds.counter(thread)); },
          [&] { return loader.more(); });
    };
    static_cast<void>(target_->run_phase(Accounting::off, rounds, {"load", 0, records_to_load()},
                                         progress_, job));
    result_.load.seconds = clock_.to_seconds(rounds.active());
    result_.load.records = rounds.operations();
    if (failure.outcome() != Outcome::ok) return load_error(failure.outcome());
    return {};
  }

  Result<void> load_in_bulk(Instance<Keys>& instance) {
    progress_.show("sort records", -1, 0);
    const SortedRecords<Keys> sorted(instance.workload);
    progress_.show("bulk load", -1, 0);
    const Ticks start = clock_.now();
    if (auto loaded = instance.index->bulk_load(sorted.records()); !loaded) {
      if (loaded.error().code == ErrorCode::out_of_space) return load_error(Outcome::out_of_space);
      return loaded.error();
    }
    result_.load.seconds += clock_.to_seconds(clock_.now() - start);
    result_.load.records += sorted.records().size();
    return {};
  }

  [[nodiscard]] std::uint64_t records_to_load() const noexcept {
    return config_.workload.records * instances_.size();
  }

  [[nodiscard]] Error load_error(Outcome outcome) const {
    const std::uint64_t loaded = result_.load.records;
    const std::string progress =
        std::to_string(loaded) + " of " + std::to_string(records_to_load()) + " records";
    if (outcome != Outcome::out_of_space)
      return {ErrorCode::failed,
              "loading a fresh key answered '" + std::string(perdure::name_of(outcome)) +
                  "' after " + progress,
              config_.index.name, "the index is at fault: run it with --verify"};
    if (site_->pool() == nullptr && !config_.uses_path())
      return {ErrorCode::out_of_space, "the system gives no more memory after " + progress,
              config_.index.name, "give fewer --records, or raise the limit (ulimit -v)"};
    // What the loaded part took, scaled up, with a quarter to spare; twice when it says nothing.
    const double share = static_cast<double>(std::max<std::uint64_t>(loaded, 1)) /
                         static_cast<double>(records_to_load());
    const double needed = static_cast<double>(site_->bytes()) * std::max(2.0, 1.25 / share);
    const auto mebibytes = static_cast<std::uint64_t>(needed / 0x1p20) + 1;
    const bool loaded_any = loaded * 100 >= records_to_load();
    return {ErrorCode::out_of_space, "the pool is full after " + progress,
            config_.scratch_pool        ? "the simulated pool"
            : config_.pool_path.empty() ? "--heap dram"
                                        : config_.pool_path,
            loaded_any ? "--pool-bytes " + std::to_string(mebibytes) + "MiB would do"
                       : "leave --pool-bytes out to have it chosen"};
  }

  void measure_memory() {
    MemoryResult& memory = result_.memory;
    for (const Instance<Keys>& each : instances_) memory.dram_bytes += each.index->dram_bytes();
    memory.records = config_.reuse ? result_.recovery->records : result_.load.records;
    if (const Pool* const pool = site_->pool()) {
      const HeapUsage usage = pool->heap().usage();
      memory.pm_bytes = usage.reserved_bytes;
      memory.dram_bytes += usage.dram_bytes;
      memory.pool_huge_page_bytes = pool->huge_page_bytes();
    } else if (config_.uses_path()) {
      memory.pm_bytes = site_->directory_bytes();
    }
  }

  void prepare_verifiers() {
    for (Instance<Keys>& each : instances_) {
      if (!config_.verify) return;
      each.verifier = std::make_unique<workload::Verifier>(each.workload, each.threads);
      if (config_.reuse) each.verifier->forget_loaded();
    }
  }

  // What an earlier run left decides where fresh keys begin and what the verifier expects.
  Result<void> look_at_reused(Instance<Keys>& instance) {
    const workload::KeySpace keys(instance.workload);
    if (auto sampled = sample_loaded(*instance.index, keys); !sampled) return sampled;
    const std::uint64_t present = instance.index->size();
    if (present != config_.workload.records)
      result_.warnings.push_back("the index holds " + std::to_string(present) +
                                 " records, the workload loads " +
                                 std::to_string(config_.workload.records));
    const bool inserts = config_.workload.mix.has(workload::Operation::insert);
    if (!config_.verify && !inserts) return {};
    if (!config_.index.ordered) {
      if (inserts)
        result_.warnings.emplace_back(
            "an unordered index cannot tell which keys it holds: inserts may meet present keys");
      return {};
    }
    progress_.show("read the reused records", -1, 0);
    std::uint64_t end = 0;
    for_each_record(*instance.index, [&](auto key, auto value) {
      if (config_.verify) instance.verifier->adopt(key, value);
      end = std::max(end, id_end(keys, key));
    });
    instance.first_fresh_id = std::max(end, config_.workload.records);
    return {};
  }

  // One more than the id of a key, or 0 for a key that no run of this workload can have inserted.
  template <class Key>
  static std::uint64_t id_end(const workload::KeySpace& keys, Key key) {
    constexpr std::uint64_t most = 1ULL << 56;
    std::uint64_t id = most;
    if constexpr (std::is_integral_v<Key>)
      id = keys.id_of(key);
    else
      id = keys.id_of(key).value_or(most);
    return id < most ? id + 1 : 0;
  }

  // A pool of another seed or key form would make every operation miss: say so instead.
  Result<void> sample_loaded(OrderedIndex<Keys>& index, const workload::KeySpace& keys) {
    constexpr std::uint64_t most_samples = 1000;
    const std::uint64_t records = config_.workload.records;
    if (records == 0 || !config_.index.verifiable) return {};
    const std::uint64_t step = std::max<std::uint64_t>(1, records / most_samples);
    std::uint64_t found = 0;
    std::string text(keys.longest(), '\0');
    typename Keys::ValueOut value{};
    for (std::uint64_t id = 0; id < records; id += step) {
      if constexpr (!has_text_keys<Keys>)
        found += index.lookup(keys.word(id), value) == Outcome::ok ? 1 : 0;
      else
        found += index.lookup(std::string_view(text.data(), keys.write(id, text.data())), value) ==
                         Outcome::ok
                     ? 1
                     : 0;
    }
    if (found != 0) return {};
    return Error{ErrorCode::bad_input, "holds none of the keys this workload loads",
                 config_.pool_path, "give the --records, --seed and --keys it was created with"};
  }

  void repeat() {
    workers_.resize(config_.threads);
    target_->run(Accounting::off, [&](unsigned thread) {
      workers_[thread] =
          std::make_unique<Worker<Keys>>(config_, instance_of(thread), thread, clock_);
    });
    // Streams of their own: later than the last repetition's.
    if (config_.simulated && config_.simulated->warm)
      static_cast<void>(run_phase(Accounting::tags, config_.repetitions + 1,
                                  operations_that_warm(config_), 0, "warming the caches"));
    if (config_.warmup_seconds > 0)
      static_cast<void>(
          run_phase(Accounting::on, config_.repetitions, 0, config_.warmup_seconds, "warm-up"));
    std::optional<InterferenceWatch> others;
    if (!config_.simulated) others.emplace();
    for (unsigned i = 0; i < config_.repetitions && !interrupted(); ++i)
      result_.repetitions.push_back(run_phase(
          Accounting::on, i, config_.workload.operations, config_.workload.seconds,
          "repetition " + std::to_string(i + 1) + " of " + std::to_string(config_.repetitions)));
    if (others) result_.interference = others->so_far();
    for (const Instance<Keys>& each : instances_) note_unchecked_scans(*each.index);
  }

  // A wrapper's scans that hand out nothing leave a rate without what it rests on.
  void note_unchecked_scans(const OrderedIndex<Keys>& index) {
    if (config_.plugin.empty() || !config_.workload.mix.has(workload::Operation::scan)) return;
    const PluginViolations seen = plugin_violations(index);
    if (seen.scans_without_records != 0)
      result_.warnings.push_back(std::to_string(seen.scans_without_records) +
                                 " scans handed out no records: they count by the number of "
                                 "records that the wrapper claims, and are not checked");
    if (seen.scans_of_nothing != 0)
      result_.warnings.push_back(std::to_string(seen.scans_of_nothing) +
                                 " scans handed out no records and claimed none: they count as "
                                 "failed; the wrapper may have no scan");
  }

  RepetitionResult run_phase(Accounting accounting, unsigned repetition, std::uint64_t operations,
                             double seconds, std::string name) {
    Rounds rounds(config_.threads, clock_, target_->filling());
    const auto job = [&](unsigned thread) {
      Worker<Keys>& worker = *workers_[thread];
      OperationCounter& counter = rounds.counter(thread);
      worker.begin(repetition, operations_of_instance(thread, operations),
                   accounting == Accounting::on);
      rounds.work(
          thread, true, [&] { return worker.fill(); },
          [&](Ticks active, Ticks start) { worker.run(rounds, counter, active, start); },
          [&] { return worker.more(); });
      worker.finish();
    };
    RepetitionResult repetition_result;
    repetition_result.timeline = target_->run_phase(
        accounting, rounds, {std::move(name), seconds, operations}, progress_, job);
    if (accounting == Accounting::on) repetition_result.simulated = target_->last_run();
    repetition_result.seconds = clock_.to_seconds(rounds.active());
    repetition_result.tally = Tally(config_.measures_latency(), config_.open_loop());
    for (const auto& worker : workers_) {
      repetition_result.tally.merge(worker->tally);
      fresh_exhausted_ = fresh_exhausted_ || worker->fresh_exhausted();
    }
    return repetition_result;
  }

  // Of a limit for all threads. An instance has them all, or each thread one.
  [[nodiscard]] std::uint64_t operations_of_instance(unsigned thread,
                                                     std::uint64_t operations) const noexcept {
    const std::uint64_t more = thread < operations % instances_.size() ? 1 : 0;
    return operations / instances_.size() + more;
  }

  void check_answers() {
    result_.verification.emplace();
    for (Instance<Keys>& each : instances_) {
      check_whole_index(each);
      add_summary(each.verifier->summary());
    }
  }

  void add_summary(const workload::Verifier::Summary& summary) {
    result_.verification->checked += summary.checked;
    result_.verification->wrong += summary.wrong;
    for (const std::string& example : summary.examples)
      if (result_.verification->examples.size() < workload::Verifier::most_examples)
        result_.verification->examples.push_back(example);
  }

  void check_whole_index(Instance<Keys>& instance) {
    OrderedIndex<Keys>& index = *instance.index;
    workload::Verifier& verifier = *instance.verifier;
    if (!config_.plugin.empty()) report_violations(index, verifier);
    if (config_.index.ordered && hands_out_scans(index)) {
      progress_.show("verify all records", -1, 0);
      workload::FinalCheck check(verifier);
      for_each_record(index, [&](auto key, auto value) {
        check.accept(key, value);
        if (!config_.answers_path.empty()) append_record(records_, key, value);
      });
      static_cast<void>(check.finish());
      const std::uint64_t size = index.size();
      if (size != check.records())
        verifier.report("size() says " + std::to_string(size) + ", a full scan finds " +
                        std::to_string(check.records()) + " records");
    }
  }

  // What a wrapper did against its interface is as wrong as a wrong answer.
  void report_violations(OrderedIndex<Keys>& index, workload::Verifier& verifier) {
    const PluginViolations violations = plugin_violations(index);
    const auto report = [&](std::uint64_t count, const char* what) {
      if (count != 0) verifier.report(std::to_string(count) + what);
    };
    report(violations.overruns, " calls wrote outside the value buffer");
    report(violations.exceptions, " calls threw an exception");
    report(violations.impossible_scans, " scans returned what no scan may return");
  }

  // Some wrappers never hand out what they scanned, so there is nothing to walk.
  bool hands_out_scans(OrderedIndex<Keys>& index) {
    if (config_.plugin.empty()) return true;
    typename Keys::Scan scan;
    index.scan({}, 1, scan);
    const PluginViolations seen = plugin_violations(index);
    const bool handed_out = index.size() == 0 || scan.size() != 0 ||
                            (seen.scans_without_records == 0 && seen.scans_of_nothing == 0);
    if (!handed_out)
      result_.warnings.emplace_back(
          "the wrapper's scans hand out no records: what it holds at the end is not checked");
    return handed_out;
  }

  void check_invariants(OrderedIndex<Keys>& index) {
    progress_.show("check invariants", -1, 0);
    index.quiesce();
    auto checked = index.check_invariants();
    if (checked) return;
    Error error = checked.error();
    error.code = ErrorCode::failed;
    if (error.where.empty()) error.where = config_.index.name;
    result_.broken_invariant = std::move(error);
  }

  Result<BenchResult> finish() {
    result_.interrupted = interrupted();
    if (config_.verify && !result_.verification) {
      result_.verification.emplace();
      for (const Instance<Keys>& each : instances_)
        if (each.verifier) add_summary(each.verifier->summary());
    }
    if (fresh_exhausted_)
      result_.warnings.emplace_back(
          "the key file has no line left for inserts: the later ones failed");
    add_warnings(config_, result_, target_->pinned());
    if (auto closed = close(); !closed) return closed.error();
    return std::move(result_);
  }

  Result<void> close() {
    progress_.clear();
    if (!target_) return {};
    if (const Pool* const pool = site_ ? site_->pool() : nullptr) target_->remove_pool(*pool);
    Result<void> closed;
    target_->run_alone(Accounting::off, [&] {
      workers_.clear();
      // A simulation's process ends with it: what keeps nothing need not be taken apart.
      const IndexClass kind = config_.index.index_class;
      if (Target::simulates && (kind == IndexClass::in_memory || kind == IndexClass::volatile_pm))
        for (Instance<Keys>& each : instances_) static_cast<void>(each.index.release());
      // What a later run opens is compared with what this one leaves.
      if (site_ && site_->pool() != nullptr && kind == IndexClass::persistent &&
          !config_.scratch_pool)
        for (Instance<Keys>& each : instances_)
          if (each.index) settle_index<Keys>(*each.index, site_->pool(), each.root_name);
      instances_.clear();
      take_all_time();
      if (site_) closed = site_->close();
    });
    return closed;
  }

  [[nodiscard]] Instance<Keys>& instance_of(unsigned thread) noexcept {
    return instances_[thread % instances_.size()];
  }

  const BenchConfig& config_;
  Progress& progress_;
  const Clock& clock_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<PoolSite> site_;         // outlives the instances
  std::vector<Instance<Keys>> instances_;  // one, or one for each thread
  std::vector<std::unique_ptr<Worker<Keys>>> workers_;
  bool fresh_exhausted_ = false;
  std::string records_;  ///< as text, when answers are written
  std::optional<OutputFile> answers_file_;
  BenchResult result_;
};

Result<void> configure_pm(const BenchConfig& config) {
  if (config.flush) {
    if (auto configured = pm::configure(config.durability, *config.flush); !configured)
      return configured;
  } else {
    pm::configure(config.durability);
  }
  pm::configure_simd(config.simd.value_or(pm::detect_simd_level()));
  pm::configure_transactions(config.transactions);
  return {};
}

}  // namespace

Result<BenchResult> run_bench(const BenchConfig& config, Progress& progress) {
  if (auto configured = configure_pm(config); !configured) return configured.error();
  if (config.key_kind() == KeyKind::integer) return Session<IntegerKeys>(config, progress).run();
  if (config.key_kind() == KeyKind::slots) return Session<SlotKeys>(config, progress).run();
  return Session<ByteKeys>(config, progress).run();
}

}  // namespace perdure::driver
