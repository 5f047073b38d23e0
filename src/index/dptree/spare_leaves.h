// Leaves that are held for the splits of the next merges, where the pool is nearly full.
//
// A key whose base leaf has no slot for it is let in then only if it can claim a split, for which
// leaves are held; else it is refused before it is logged. So merges leave hardly anything over,
// which would keep the logs, and every leaf can be filled. While the pool has room, nothing is
// held, and no key claims.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pm/version_lock.h"
#include "pool/heap.h"

namespace perdure::dptree {

class SpareLeaves {
 public:
  static constexpr std::size_t per_split = 2;  ///< the old one is freed afterwards

  SpareLeaves(Heap& heap, std::size_t leaf_bytes) : heap_(heap), leaf_bytes_(leaf_bytes) {}
  ~SpareLeaves() { release(); }
  SpareLeaves(const SpareLeaves&) = delete;
  SpareLeaves& operator=(const SpareLeaves&) = delete;

  /// Whether splits must be claimed.
  [[nodiscard]] bool are_scarce() const noexcept { return scarce_.load(std::memory_order_relaxed); }
  /// A split for a key of the front tree. False: there are no leaves for it.
  [[nodiscard]] bool claim() {
    const Lock lock(lock_);
    const std::size_t before = held_.size();
    if (fill(per_split * (claims() + 1))) {
      ++of_front_;
      return true;
    }
    shrink_to(before);
    return false;
  }
  /// The key did not come.
  void unclaim() {
    const Lock lock(lock_);
    if (of_front_ != 0) --of_front_;
    trim();
  }
  /// False: keys are logged that claimed nothing, and for which there are no leaves.
  [[nodiscard]] bool covers_claims() const {
    const Lock lock(lock_);
    return held_.size() >= per_split * claims();
  }

  /// The front tree becomes the middle tree.
  void rotate() {
    const Lock lock(lock_);
    of_middle_ = of_front_;
    of_front_ = 0;
  }
  /// For keys that are carried over to the front tree.
  void add_claims(std::size_t keys) {
    const Lock lock(lock_);
    of_front_ += keys;
  }
  /// After a merge, which left `left` keys of the middle tree over. The front tree has `changes`,
  /// of which each may need a split where none were claimed until now.
  void count(std::uint64_t changes, std::size_t left) {
    const Lock lock(lock_);
    if (!are_scarce()) of_front_ = changes;
    of_middle_ = left;
    trim();
    scarce_.store(true, std::memory_order_relaxed);
  }
  /// Holds nothing any more, though claims may be left.
  void give_up() {
    const Lock lock(lock_);
    shrink_to(0);
  }
  /// There is room again.
  void release() {
    scarce_.store(false, std::memory_order_relaxed);
    give_up();
  }
  /// Whether the heap has leaves for `splits` splits beside those that were claimed.
  [[nodiscard]] bool could_claim(std::size_t splits) {
    const Lock lock(lock_);
    const std::size_t before = held_.size();
    const bool could = fill(per_split * (claims() + splits));
    shrink_to(before);
    return could;
  }

  [[nodiscard]] std::size_t size() const {
    const Lock lock(lock_);
    return held_.size();
  }
  /// One of them; null: there is none.
  [[nodiscard]] Reservation take() {
    const Lock lock(lock_);
    if (held_.empty()) return {};
    const Reservation leaf = held_.back();
    held_.pop_back();
    return leaf;
  }
  void put_back(Reservation leaf) {
    const Lock lock(lock_);
    held_.push_back(leaf);
  }

 private:
  using Lock = pm::LockGuard;

  [[nodiscard]] std::size_t claims() const noexcept { return of_front_ + of_middle_; }
  [[nodiscard]] bool fill(std::size_t wanted) {
    while (held_.size() < wanted) {
      const Reservation leaf = heap_.reserve(leaf_bytes_);
      if (!leaf) return false;
      held_.push_back(leaf);
    }
    return true;
  }
  void trim() { shrink_to(per_split * claims()); }
  void shrink_to(std::size_t leaves) {
    for (; held_.size() > leaves; held_.pop_back()) heap_.cancel(held_.back());
  }

  Heap& heap_;
  const std::size_t leaf_bytes_;
  std::atomic<bool> scarce_{false};
  mutable pm::VersionLock lock_;
  std::vector<Reservation> held_;
  std::size_t of_front_ = 0;   ///< claims for keys that are in the front tree
  std::size_t of_middle_ = 0;  ///< in the middle tree
};

}  // namespace perdure::dptree
