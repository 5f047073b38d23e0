#include "driver/run_site.h"

#include <utility>

#include "driver/interrupt.h"

namespace perdure::driver {

Result<void> RunSite::open(const std::function<Result<void>()>& make,
                           const std::function<std::uint64_t()>& count) {
  Result<void> opened;
  const Ticks start = run_.clock.now();
  run_.target.run_alone(Accounting::off, [&] { opened = open_site(); });
  if (!opened) return opened;
  if (const Pool* const pool = site_->pool()) run_.target.add_pool(*pool);
  run_.target.run_alone(config_.reuse ? Accounting::on : Accounting::off, [&] {
    run_.progress.show(config_.reuse ? "recover" : "create", -1, 0);
    opened = make();
  });
  if (!opened) return opened;
  run_.result.pool_bytes = site_->bytes();
  run_.result.medium = site_->medium();
  run_.result.heap = site_->pool() == nullptr ? "none" : name_of(site_->pool()->heap_kind());
  if (config_.reuse) note_recovery(run_.clock.to_seconds(run_.clock.now() - start), count);
  return {};
}

void RunSite::keep() {
  if (!config_.scratch_pool) site_->keep();
}

void RunSite::measure_memory(std::uint64_t dram_bytes) {
  MemoryResult& memory = run_.result.memory;
  memory.dram_bytes = dram_bytes;
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

void RunSite::leave_target() {
  if (const Pool* const there = pool()) run_.target.remove_pool(*there);
}

Result<void> RunSite::close() {
  take_all_time();
  return site_ ? site_->close() : Result<void>();
}

bool RunSite::is_kept() const noexcept {
  return pool() != nullptr && config_.index.index_class == IndexClass::persistent &&
         !config_.scratch_pool;
}

Result<void> RunSite::open_site() {
  auto site = PoolSite::prepare(config_);
  if (!site) return site.error();
  site_ = std::move(site).value();
  return {};
}

void RunSite::note_recovery(double seconds, const std::function<std::uint64_t()>& count) {
  RecoveryResult recovery;
  recovery.seconds = seconds;
  recovery.simulated = run_.target.last_run();
  run_.target.run_alone(Accounting::off, [&] { recovery.records = count(); });
  if (const Pool* const there = site_->pool()) {
    recovery.clean = there->was_clean();
    recovery.leaked_blocks_freed = there->leaked_blocks_freed();
  }
  run_.result.recovery = recovery;
}

}  // namespace perdure::driver
