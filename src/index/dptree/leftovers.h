// The changes that a merge without room has left over, and when the next merge is worth its
// reading: it would read all of them, and all leaves, for every change of a full pool.
//
// All but `any` and the requests is read and written under the tree's `merging_`.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "index/dptree/log.h"

namespace perdure::dptree {

class Leftovers {
 public:
  /// In the middle tree and its log, in key order (D4).
  [[nodiscard]] const std::vector<LogRecord*>& records() const noexcept { return records_; }
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  /// After a merge: what it has left over, and whether that is all it had.
  void replace(std::vector<LogRecord*> records, bool all) {
    constexpr std::uint64_t records_per_request = 16;  // read by the next merge
    removed_at_fruitless_merge_.reset();
    if (all) removed_at_fruitless_merge_ = removed_;
    records_ = std::move(records);
    set_requests(records_.size() / records_per_request);
    any_.store(!records_.empty(), std::memory_order_relaxed);
  }

  /// A request for room: true when a merge is due, else one request nearer.
  [[nodiscard]] bool is_due() noexcept {
    std::uint64_t left = requests_until_merge_.load(std::memory_order_relaxed);
    if (left == 0) return true;
    requests_until_merge_.compare_exchange_strong(left, left - 1, std::memory_order_relaxed);
    return false;
  }
  void set_requests(std::uint64_t requests) noexcept {
    requests_until_merge_.store(requests, std::memory_order_relaxed);
  }
  void set_requests_at_least(std::uint64_t least) noexcept {
    set_requests(std::max(requests_until_merge_.load(std::memory_order_relaxed), least));
  }
  void set_requests_at_most(std::uint64_t most) noexcept {
    if (requests_until_merge_.load(std::memory_order_relaxed) > most) set_requests(most);
  }

  /// Records gone from leaves since leaves to join were last looked for.
  [[nodiscard]] std::uint64_t removed() const noexcept { return removed_; }
  void count_removed(std::uint64_t records) noexcept { removed_ += records; }
  void forget_removed() noexcept { removed_ = 0; }
  /// A leaf has lost its last record in place, so a merge frees it.
  [[nodiscard]] bool has_empty_leaf() const noexcept { return has_empty_leaf_; }
  void set_empty_leaf(bool has) noexcept { has_empty_leaf_ = has; }
  /// Nothing has changed in the leaves since a merge that could do nothing.
  [[nodiscard]] bool would_change_nothing() const noexcept {
    return removed_at_fruitless_merge_ && !has_empty_leaf_ &&
           removed_ == *removed_at_fruitless_merge_;
  }

 private:
  std::vector<LogRecord*> records_;
  std::atomic<bool> any_{false};
  std::atomic<std::uint64_t> requests_until_merge_{0};
  std::uint64_t removed_ = 0;
  bool has_empty_leaf_ = false;
  std::optional<std::uint64_t> removed_at_fruitless_merge_;
};

}  // namespace perdure::dptree
