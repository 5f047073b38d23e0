// Indexes: the pool of a run and the index instances in it, from opening to closing.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "driver/instance.h"
#include "driver/interrupt.h"
#include "driver/pool_setup.h"
#include "driver/run_context.h"
#include "index/registry.h"
#include "pibench/plugin_index.h"
#include "workload/keys.h"

namespace perdure::driver {

template <class Keys>
class Indexes {
 public:
  // Made after the target has started: a simulation decides then where memory lies.
  explicit Indexes(const RunContext& run) : run_(run), config_(run.config) {
    for (unsigned n = 0; n < config_.instances(); ++n) instances_.emplace_back(config_, n);
  }

  /// Opens the pool and creates or recovers every index in it.
  Result<void> open() {
    Result<void> opened;
    const Ticks start = run_.clock.now();
    run_.target.run_alone(Accounting::off, [&] { opened = open_site(); });
    if (!opened) return opened;
    if (const Pool* const pool = site_->pool()) run_.target.add_pool(*pool);
    // Recovery is measured, creation is not.
    run_.target.run_alone(config_.reuse ? Accounting::on : Accounting::off, [&] {
      for (Instance<Keys>& each : instances_)
        if (opened) opened = make_index(each);
    });
    if (!opened) return opened;
    run_.result.pool_bytes = site_->bytes();
    run_.result.medium = site_->medium();
    run_.result.heap = site_->pool() == nullptr ? "none" : name_of(site_->pool()->heap_kind());
    if (config_.reuse) note_recovery(run_.clock.to_seconds(run_.clock.now() - start));
    return {};
  }

  /// What `open` created stays when the run ends.
  void keep() {
    if (!config_.scratch_pool) site_->keep();
  }

  void quiesce() {
    for (Instance<Keys>& each : instances_) each.index->quiesce();
  }

  void measure_memory() {
    MemoryResult& memory = run_.result.memory;
    for (const Instance<Keys>& each : instances_) memory.dram_bytes += each.index->dram_bytes();
    memory.records = config_.reuse ? run_.result.recovery->records : run_.result.load.records;
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
    if (!config_.verify) return;
    for (Instance<Keys>& each : instances_) {
      each.verifier = std::make_unique<workload::Verifier>(each.workload, each.threads);
      if (config_.reuse) each.verifier->forget_loaded();
    }
  }

  /// Tells the target that the pool will be unmapped.
  void leave_target() {
    if (const Pool* const pool = site_ ? site_->pool() : nullptr) run_.target.remove_pool(*pool);
  }

  /// Closes the indexes, then the pool. No worker is left.
  Result<void> close() {
    // A simulation's process ends with the run: indexes that keep nothing need not be taken apart.
    const IndexClass kind = config_.index.index_class;
    if (Target::simulates && (kind == IndexClass::in_memory || kind == IndexClass::volatile_pm))
      for (Instance<Keys>& each : instances_) static_cast<void>(each.index.release());
    // A later run compares what it opens with what this one leaves.
    if (site_ && site_->pool() != nullptr && kind == IndexClass::persistent &&
        !config_.scratch_pool)
      for (Instance<Keys>& each : instances_)
        if (each.index) settle_index<Keys>(*each.index, site_->pool(), each.root_name);
    instances_.clear();
    take_all_time();
    return site_ ? site_->close() : Result<void>();
  }

  [[nodiscard]] const PoolSite& site() const noexcept { return *site_; }
  [[nodiscard]] std::vector<Instance<Keys>>& all() noexcept { return instances_; }
  [[nodiscard]] Instance<Keys>& of_thread(unsigned thread) noexcept {
    return instances_[thread % instances_.size()];
  }

 private:
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
    // A simulation runs only the threads it was given, so the index must start none.
    place.threads = Target::simulates ? 1 : config_.threads;
    place.huge_pages = config_.huge_pages;
    run_.progress.show(config_.reuse ? "recover" : "create", -1, 0);
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

  void note_recovery(double seconds) {
    RecoveryResult recovery;
    recovery.seconds = seconds;
    recovery.simulated = run_.target.last_run();
    run_.target.run_alone(Accounting::off, [&] {
      for (const Instance<Keys>& each : instances_) recovery.records += each.index->size();
    });
    if (const Pool* const pool = site_->pool()) {
      recovery.clean = pool->was_clean();
      recovery.leaked_blocks_freed = pool->leaked_blocks_freed();
    }
    run_.result.recovery = recovery;
  }

  const RunContext& run_;
  const BenchConfig& config_;
  std::unique_ptr<PoolSite> site_;         // outlives the instances
  std::vector<Instance<Keys>> instances_;  // one, or one for each thread
};

}  // namespace perdure::driver
