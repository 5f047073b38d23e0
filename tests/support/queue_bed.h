// QueueBed: a registered queue with a pool of its own: create, reopen, throw away. The targets come
// from the registry, so that a new queue is enrolled without a word in tests/.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "lockfree/base/queue_registry.h"
#include "support/bed.h"
#include "support/temp_folder.h"

namespace perdure::testing {

struct QueueTarget {
  const QueueInfo* info = nullptr;
  HeapKind heap = HeapKind::slab;
  std::vector<std::string> options{};  ///< name=value, besides those a test gives

  /// "ring_txfree_slab": a gtest parameter name.
  [[nodiscard]] std::string name() const;
};

std::ostream& operator<<(std::ostream& out, const QueueTarget& target);

/// Every persistent queue, on slab and pmdk.
[[nodiscard]] std::vector<QueueTarget> queue_targets();
/// Of these, those on slab, where every byte after the header is the queue's own.
[[nodiscard]] std::vector<QueueTarget> slab_queue_targets();

struct QueueBedOptions {
  std::uint64_t slots = 100;
  std::uint64_t payload_bytes = 300;
  std::uint64_t pool_bytes = PoolLimits::min_pool_bytes;
};

class QueueBed {
 public:
  /// A new pool with an empty queue.
  [[nodiscard]] static Result<std::unique_ptr<QueueBed>> create(const QueueTarget& target,
                                                                const QueueBedOptions& options);
  /// A new pool without one.
  [[nodiscard]] static Result<std::unique_ptr<QueueBed>> create_pool(
      const QueueTarget& target, const QueueBedOptions& options);
  /// Opens what is in the file at `path`, which stays when the bed is destroyed.
  [[nodiscard]] static Result<std::unique_ptr<QueueBed>> open(const QueueTarget& target,
                                                              const QueueBedOptions& options,
                                                              const std::string& path);
  ~QueueBed() { drop(); }
  QueueBed(const QueueBed&) = delete;
  QueueBed& operator=(const QueueBed&) = delete;

  [[nodiscard]] DurableQueue& queue() noexcept { return *queue_; }
  [[nodiscard]] Pool& pool() noexcept { return *pool_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t live_blocks() const { return pool_->heap().usage().live_blocks; }

  /// Puts a queue with these options into the pool, which has none.
  [[nodiscard]] Result<void> make_queue(const QueueBedOptions& options);
  /// One more beside it, under another root.
  [[nodiscard]] MadeQueue make_another(const std::string& root_name,
                                       const QueueBedOptions& options) const;
  /// Closes in the given way, maps at another address, recovers.
  [[nodiscard]] Result<Reopened> reopen(Reopen how);
  /// Settles and closes; the file stays until the bed is destroyed.
  [[nodiscard]] Result<void> close();
  /// Forgets queue and pool without closing: what a crash leaves, minus the caches.
  void drop();

 private:
  QueueBed() = default;
  [[nodiscard]] Result<void> recover(std::uint64_t map_address);
  [[nodiscard]] Result<QueuePlace> place(const QueueBedOptions& options) const;

  QueueTarget target_;
  QueueBedOptions options_;
  std::unique_ptr<TempFolder> folder_;  ///< null when the file is not ours
  std::string path_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<DurableQueue> queue_;  ///< destroyed before its pool
};

template <class T>
[[nodiscard]] ::testing::AssertionResult holds(const Result<T>& result) {
  if (result.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().line();
}

/// Payload `number` of a test: of any length up to `most`, short ones and long ones, and unlike
/// every other but where it is empty.
[[nodiscard]] std::string numbered_payload(std::uint64_t number, std::size_t most);

/// Pushes numbered payloads, from `next` on, until the queue is full; each is appended to `model`.
/// Every second has a tag of producer number mod 3, where the queue keeps tags. Error: the queue
/// refuses otherwise, or never.
[[nodiscard]] Result<void> fill(DurableQueue& queue, std::deque<std::string>& model,
                                std::uint64_t& next);
/// Pops `count` payloads, which must be the first of `model`.
[[nodiscard]] Result<void> take(DurableQueue& queue, std::deque<std::string>& model,
                                std::uint64_t count);
/// Pops all of `model`, and finds the queue empty.
[[nodiscard]] Result<void> drain(DurableQueue& queue, std::deque<std::string>& model);

}  // namespace perdure::testing
