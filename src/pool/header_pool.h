// HeaderPool: what pools with the common header share: roots, the recovery protocol, the clean
// flag.
#pragma once

#include <array>

#include "pm/pm.h"
#include "pool/header.h"
#include "pool/pool.h"

namespace perdure {

class HeaderPool : public Pool {
 public:
  [[nodiscard]] std::string uuid() const override { return header_->uuid_text(); }
  Result<void> add_root(std::string_view name, Reservation& block) override;
  [[nodiscard]] std::vector<PoolRoot> roots() const override;
  Result<void> root_recovered(std::string_view name) override;
  [[nodiscard]] Result<bool> recover_later(std::string_view name,
                                           std::atomic<std::uint64_t>& high_water) override;
  Result<void> finish_recovery() override;
  [[nodiscard]] std::uint64_t huge_page_bytes() const override;

 protected:
  HeaderPool() = default;

  /// Begins a session on a new pool: the heap is empty and ready.
  Result<void> start_new();
  /// Begins a session on an existing pool: clears the clean flag durably, marks the root blocks,
  /// and waits for their owners. Errors: corrupt.
  Result<void> start_existing();
  /// Sets the clean flag, durably, unless recovery was begun but not finished, or damage found.
  void finish();

  PoolHeader* header_ = nullptr;  ///< in the mapping

 private:
  Result<void> sweep_if_all_recovered();
  [[nodiscard]] PoolHeader::Root* find_root(std::string_view name) const noexcept;
  void set_clean(std::uint64_t word);

  pm::VersionLock roots_lock_;
  std::array<bool, max_roots> awaited_{};
};

}  // namespace perdure
