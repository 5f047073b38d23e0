// RestartState: how far an instant restart is, and the damage that it has met.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "core/result.h"
#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure::roart {

class RestartState {
 public:
  /// The walk is under way, or has met damage.
  [[nodiscard]] bool early() const noexcept { return stage() != Stage::settled; }
  [[nodiscard]] bool is_walking() const noexcept { return stage() == Stage::walking; }
  /// T9: every operation is refused.
  [[nodiscard]] bool is_damaged() const noexcept { return stage() == Stage::damaged; }
  /// Of a damaged tree: the first one met.
  [[nodiscard]] Error damage() const {
    const pm::LockGuard alone(lock_);
    return *damage_;
  }

  void begin_walk() noexcept { stage_.store(Stage::walking, std::memory_order_release); }
  /// The walk has ended, unless it met damage.
  void settle() noexcept {
    Stage expected = Stage::walking;
    stage_.compare_exchange_strong(expected, Stage::settled, std::memory_order_acq_rel);
  }
  void note_damage(const Error& what, Pool& pool) {
    {
      const pm::LockGuard alone(lock_);
      if (!damage_) damage_ = what;
    }
    pool.note_damage();
    stage_.store(Stage::damaged, std::memory_order_release);
  }

 private:
  enum class Stage : std::uint8_t { settled, walking, damaged };
  [[nodiscard]] Stage stage() const noexcept { return stage_.load(std::memory_order_acquire); }

  std::atomic<Stage> stage_{Stage::settled};
  mutable pm::VersionLock lock_;  ///< guards `damage_`
  std::optional<Error> damage_;
};

}  // namespace perdure::roart
