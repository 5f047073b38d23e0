// What merges have retired, until no thread can still read it (D6).
#pragma once

#include <atomic>
#include <cstdint>

#include "pm/pm.h"
#include "pool/epoch.h"

namespace perdure::dptree {

class Retired {
 public:
  explicit Retired(Epochs& epochs) : epochs_(epochs) {}

  /// Frees what it can after a merge, in `attempts` attempts: a merge retires much at once, and
  /// threads are pinned for one operation each. False: some is left.
  bool collect_after_merge(unsigned attempts) {
    bool all = epochs_.collect();
    pm::Backoff backoff;
    for (unsigned i = 1; i < attempts && !all; ++i) {
      backoff.wait();
      all = epochs_.collect();
    }
    is_left_.store(!all, std::memory_order_relaxed);
    return all;
  }
  void count_merge() noexcept { ++merges_; }
  /// Tries once more.
  void collect_rest() { is_left_.store(!epochs_.collect(), std::memory_order_relaxed); }
  void drain() {
    epochs_.drain();
    is_left_.store(false, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_left() const noexcept { return is_left_.load(std::memory_order_relaxed); }
  /// Merges that have retired anything.
  [[nodiscard]] std::uint64_t merges() const noexcept {
    return merges_.load(std::memory_order_acquire);
  }

 private:
  Epochs& epochs_;
  std::atomic<std::uint64_t> merges_{0};
  std::atomic<bool> is_left_{false};  ///< set under `merging_`
};

}  // namespace perdure::dptree
