// Indexes: the pool of a run and the index instances in it, from opening to closing.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "driver/instance.h"
#include "driver/run_context.h"
#include "driver/run_site.h"
#include "index/registry.h"
#include "pibench/plugin_index.h"
#include "workload/keys.h"

namespace perdure::driver {

template <class Keys>
class Indexes {
 public:
  // Made after the target has started: a simulation decides then where memory lies.
  explicit Indexes(const RunContext& run) : config_(run.config), site_(run) {
    for (unsigned n = 0; n < config_.instances(); ++n) instances_.emplace_back(config_, n);
  }

  /// Opens the pool and creates or recovers every index in it.
  Result<void> open() {
    return site_.open([this] { return make_indexes(); }, [this] { return records(); });
  }

  /// What `open` created stays when the run ends.
  void keep() { site_.keep(); }

  void quiesce() {
    for (Instance<Keys>& each : instances_) each.index->quiesce();
  }

  void measure_memory() {
    std::uint64_t dram_bytes = 0;
    for (const Instance<Keys>& each : instances_) dram_bytes += each.index->dram_bytes();
    site_.measure_memory(dram_bytes);
  }

  void prepare_verifiers() {
    if (!config_.verify) return;
    for (Instance<Keys>& each : instances_) {
      each.verifier = std::make_unique<workload::Verifier>(each.workload, each.threads);
      if (config_.reuse) each.verifier->forget_loaded();
    }
  }

  /// Tells the target that the pool will be unmapped.
  void leave_target() { site_.leave_target(); }

  /// Closes the indexes, then the pool. No worker is left.
  Result<void> close() {
    // A simulation's process ends with the run: indexes that keep nothing need not be taken apart.
    const IndexClass kind = config_.index.index_class;
    if (Target::simulates && (kind == IndexClass::in_memory || kind == IndexClass::volatile_pm))
      for (Instance<Keys>& each : instances_) static_cast<void>(each.index.release());
    // A later run compares what it opens with what this one leaves.
    if (site_.is_kept())
      for (Instance<Keys>& each : instances_)
        if (each.index) settle_index<Keys>(*each.index, site_.pool(), each.root_name);
    instances_.clear();
    return site_.close();
  }

  [[nodiscard]] const RunSite& site() const noexcept { return site_; }
  [[nodiscard]] std::vector<Instance<Keys>>& all() noexcept { return instances_; }
  [[nodiscard]] Instance<Keys>& of_thread(unsigned thread) noexcept {
    return instances_[thread % instances_.size()];
  }

 private:
  Result<void> make_indexes() {
    Result<void> made;
    for (Instance<Keys>& each : instances_)
      if (made) made = make_index(each);
    return made;
  }

  [[nodiscard]] std::uint64_t records() const {
    std::uint64_t records = 0;
    for (const Instance<Keys>& each : instances_) records += each.index->size();
    return records;
  }

  Result<void> make_index(Instance<Keys>& instance) {
    IndexPlace place;
    place.pool = site_.pool();
    place.root_name = instance.root_name;
    place.lock = config_.lock;
    place.path = config_.uses_path() ? config_.pool_path : "";
    place.capacity_bytes = site_.bytes();
    place.options = config_.options;
    // A simulation runs only the threads it was given, so the index must start none.
    place.threads = Target::simulates ? 1 : config_.threads;
    place.huge_pages = config_.huge_pages;
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
    options.pool_bytes = site_.bytes();
    options.threads = config_.threads;
    if constexpr (has_text_keys<Keys>) {
      options.key_bytes = workload::KeySpace(config_.workload).longest();
      options.value_bytes = config_.workload.value_bytes;
    }
    return load_plugin<Keys>(options);
  }

  const BenchConfig& config_;
  RunSite site_;                           // outlives the instances
  std::vector<Instance<Keys>> instances_;  // one, or one for each thread
};

}  // namespace perdure::driver
