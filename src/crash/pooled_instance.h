// PooledInstance: what instances of all kinds of structure have in common: the pool that they lie
// in, and how a refusal is judged.
#pragma once

#include "crash/subject.h"

namespace perdure::crash {

class PooledInstance : public Instance {
 public:
  explicit PooledInstance(std::unique_ptr<Pool> pool) : pool_(std::move(pool)) {}

  /// Of what outlives a crash.
  [[nodiscard]] HeapUsage usage() const override {
    HeapUsage usage = pool_->heap().usage();
    const HeapUsage lost = pool_->heap().volatile_usage();
    usage.live_blocks -= lost.live_blocks;
    usage.live_bytes -= lost.live_bytes;
    return usage;
  }
  [[nodiscard]] std::vector<Heap::Extent> live_extents() const override;
  [[nodiscard]] bool is_recovering() const override { return pool_->is_recovering(); }
  [[nodiscard]] std::span<std::byte> memory() const override {
    return {pool_->base(), pool_->bytes()};
  }
  [[nodiscard]] Heap::Extent block_at(std::uint64_t offset) const override {
    return pool_->heap().block_at(offset);
  }
  [[nodiscard]] bool ready() const { return pool_->ready(); }

 protected:
  [[nodiscard]] Pool& pool() const noexcept { return *pool_; }
  /// Empty, or what the heap says against a refusal; it had refused `before` calls when the
  /// operation began. A structure may remember for a while that the heap was full.
  [[nodiscard]] std::string refused_without_reason(std::uint64_t before, bool is_new) const;

 private:
  std::unique_ptr<Pool> pool_;
};

/// A queue in `pool`, not created or recovered yet.
[[nodiscard]] std::unique_ptr<Instance> make_queue_instance(const Subject& subject,
                                                            const Vocabulary& vocabulary,
                                                            std::unique_ptr<Pool> pool);
/// The queue that `pool` holds.
[[nodiscard]] Recovered recover_queue_instance(const Subject& subject, const Vocabulary& vocabulary,
                                               std::unique_ptr<Pool> pool);

/// What recovering a structure has come to; `instance` is it, in a pool that says `was_closed`.
[[nodiscard]] Recovered recovered_to(const Result<void>& result,
                                     std::unique_ptr<PooledInstance> instance, bool was_closed);

}  // namespace perdure::crash
