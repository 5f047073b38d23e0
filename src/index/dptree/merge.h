// Merge: makes the next version of the base tree from the current one and a plan.
//
// One thread plans it. All that help write it, a stretch of leaves at a time, and each fences what
// it has written before it reports the stretch done (D8). Readers of the current version read
// nothing of what is written (D3).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "index/dptree/merge_plan.h"
#include "index/dptree/stretch.h"
#include "index/dptree/workers.h"

namespace perdure::dptree {

template <class Keys>
class Merge final : public SharedWork {
 public:
  Merge(const MergePlan<Keys>& plan, Workers& workers)
      : plan_(plan),
        workers_(workers),
        made_(std::make_unique<BaseMap<Keys>>(plan.base().version + 1)),
        old_leaves_(plan.base().empty_leaves) {}

  /// Writes all that the new version consists of, with all that help; durable with `commit`.
  void write();
  /// A part of it; false: no part is left.
  bool work() noexcept override;
  /// Sets the anchor's state, and with it the new version (A3).
  [[nodiscard]] std::unique_ptr<BaseMap<Keys>> commit(State state);
  /// The records that the new version has no more, where they have blobs.
  [[nodiscard]] std::vector<RecordWords>& dropped() noexcept { return dropped_; }
  /// Frees the leaves that the new version does not use. The caller is pinned, and shows the new
  /// version.
  void retire_leaves();

 private:
  void cut_into_stretches();
  void write_anchor_set(std::uint64_t first);

  const MergePlan<Keys>& plan_;
  Workers& workers_;
  std::vector<Stretch<Keys>> stretches_;  ///< from the left
  std::atomic<std::size_t> claimed_{0};
  std::unique_ptr<BaseMap<Keys>> made_;
  std::vector<std::uint64_t> old_leaves_;
  std::vector<RecordWords> dropped_;
};

extern template class Merge<IntegerKeys>;
extern template class Merge<ByteKeys>;

}  // namespace perdure::dptree
