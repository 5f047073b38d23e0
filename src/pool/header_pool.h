// HeaderPool: what pools with the common header share: roots, the recovery protocol, the clean
// flag.
#pragma once

#include <array>
#include <numeric>
#include <optional>

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
  void note_settled(std::string_view name, std::uint64_t records) override;
  Result<void> check_records(std::string_view name, std::uint64_t records) override;
  [[nodiscard]] bool expects_records() const noexcept override {
    return kept_ && kept_->records != 0;
  }
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
  /// Records by root, as far as their owners have told. Who tells again corrects what he told.
  struct Told {
    std::array<bool, max_roots> by{};
    std::array<std::uint64_t, max_roots> of{};

    void tell(unsigned root, std::uint64_t records) noexcept {
      by[root] = true;
      of[root] = records;
    }
    [[nodiscard]] std::uint64_t records() const noexcept {
      return std::accumulate(of.begin(), of.end(), std::uint64_t{0});
    }
  };

  Result<void> sweep_if_all_recovered();
  [[nodiscard]] bool tell(Told& told, std::string_view name, std::uint64_t records) const noexcept;
  [[nodiscard]] Result<void> check_blocks();
  [[nodiscard]] Error differs(const std::string& what);
  void keep();
  [[nodiscard]] PoolHeader::Root* find_root(std::string_view name) const noexcept;
  void set_clean(std::uint64_t word);

  pm::VersionLock roots_lock_;
  std::array<bool, max_roots> awaited_{};
  std::optional<PoolHeader::Kept> kept_;  ///< by the last clean close, until it is compared
  Told settled_;
  Told recovered_;
};

}  // namespace perdure
