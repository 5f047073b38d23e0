// RunSite: the pool of a run, from its opening to its closing, whatever lives in it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "driver/pool_setup.h"
#include "driver/run_context.h"

namespace perdure::driver {

class RunSite {
 public:
  explicit RunSite(const RunContext& run) : run_(run), config_(run.config) {}

  /// Opens the pool, then creates or recovers by `make` what the run measures. Recovery is
  /// measured, creation is not; `count` says what was recovered.
  Result<void> open(const std::function<Result<void>()>& make,
                    const std::function<std::uint64_t()>& count);

  /// What `open` created stays when the run ends.
  void keep();
  /// `dram_bytes`: of what the run measures, beside the pool.
  void measure_memory(std::uint64_t dram_bytes);
  /// Tells the target that the pool will be unmapped.
  void leave_target();
  /// Closes the pool. Nothing is left in it that is open, and no worker.
  Result<void> close();

  [[nodiscard]] Pool* pool() const noexcept { return site_ ? site_->pool() : nullptr; }
  /// As of PoolSite.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return site_->bytes(); }
  /// True when a later run may open what this one leaves.
  [[nodiscard]] bool is_kept() const noexcept;

 private:
  Result<void> open_site();
  void note_recovery(double seconds, const std::function<std::uint64_t()>& count);

  const RunContext& run_;
  const BenchConfig& config_;
  std::unique_ptr<PoolSite> site_;
};

}  // namespace perdure::driver
