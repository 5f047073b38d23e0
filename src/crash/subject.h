// Subject: the index or queue under exploration, alive on a pool image: created, operated,
// recovered, asked.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crash/image.h"
#include "crash/specification.h"
#include "crash/workload.h"
#include "index/registry.h"
#include "lockfree/base/queue_registry.h"

namespace perdure::crash {

struct Subject {
  const IndexInfo* info = nullptr;  ///< of an index; of a queue null
  IndexOptions options{};
  std::size_t pool_bytes = std::size_t{1} << 20;
  HeapKind heap = HeapKind::slab;    ///< slab or pmdk
  const QueueInfo* queue = nullptr;  ///< of a queue; of an index null

  [[nodiscard]] bool is_queue() const noexcept { return queue != nullptr; }
  /// "index" or "queue".
  [[nodiscard]] const char* noun() const noexcept { return is_queue() ? "queue" : "index"; }
  [[nodiscard]] std::string full_name() const;
  [[nodiscard]] std::span<const IndexOption> declared() const;  ///< options
  /// Errors: usage.
  [[nodiscard]] Result<IndexOptions> parse(std::span<const std::string> pairs) const;
  [[nodiscard]] std::vector<MediaStruct> media() const;  ///< empty: shown as bytes
  [[nodiscard]] std::span<const HeapKind> heaps() const;
  [[nodiscard]] Tearing tearing() const { return is_queue() ? Tearing::nothing : info->tearing; }
  [[nodiscard]] perdure::Progress progress() const {
    return is_queue() ? queue->progress : info->progress;
  }
  [[nodiscard]] bool replaces() const { return is_queue() || info->replaces; }
  [[nodiscard]] bool ordered() const { return is_queue() || info->ordered; }
};

/// A structure on a pool in memory of ours, spoken to in key numbers and stamps.
class Instance {
 public:
  virtual ~Instance() = default;
  Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// `wrong` tells of an answer that no history explains, and of a refusal for which the heap gave
  /// no reason.
  [[nodiscard]] virtual Answer perform(const Operation& operation) = 0;
  /// Operations of one action as one call. One alone is performed.
  [[nodiscard]] virtual std::vector<Answer> perform_batch(std::span<const Operation> operations) {
    std::vector<Answer> answers;
    for (const Operation& each : operations) answers.push_back(perform(each));
    return answers;
  }
  /// Index: every key's stamp (`absent` where there is none) by scan, or by lookups where the index
  /// has no order. Queue: what it says of its producers and, popped one by one, all payloads; it is
  /// empty afterwards. Empty, or what is wrong with the answer in itself: an unknown key, a torn
  /// value.
  [[nodiscard]] virtual std::string contents(Contents& found) = 0;
  /// One key of an index by lookup.
  [[nodiscard]] virtual std::uint64_t lookup(std::uint16_t key) = 0;
  /// Payloads that a queue can hold.
  [[nodiscard]] virtual std::uint64_t capacity() const { return ~std::uint64_t{0}; }
  /// Empty, or the invariant that does not hold.
  [[nodiscard]] virtual std::string check() const = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Empty, or what is wrong with the index's own count where `contents` found `stamps`.
  [[nodiscard]] virtual std::string count_wrongly(std::span<const std::uint64_t> stamps) const = 0;
  virtual void quiesce() = 0;
  /// Destroys the index and closes the pool; afterwards the instance is only destroyed.
  virtual void close() = 0;
  [[nodiscard]] virtual HeapUsage usage() const = 0;
  /// The heap's live blocks, ascending; none where it does not know them one by one. Slow.
  [[nodiscard]] virtual std::vector<Heap::Extent> live_extents() const = 0;
  /// True while the index serves operations and still recovers.
  [[nodiscard]] virtual bool is_recovering() const = 0;
  /// Where the pool is mapped.
  [[nodiscard]] virtual std::span<std::byte> memory() const = 0;
  /// The heap's block that holds the byte at `offset`.
  [[nodiscard]] virtual Heap::Extent block_at(std::uint64_t offset) const = 0;
};

/// Speaks of keys as `program` does; both outlive the instances.
class Vocabulary {
 public:
  explicit Vocabulary(const Program& program);
  ~Vocabulary();
  struct Both;
  [[nodiscard]] const Both& both() const noexcept { return *both_; }
  [[nodiscard]] std::string show(std::uint16_t key) const;
  [[nodiscard]] KeyKind kind() const noexcept { return kind_; }
  [[nodiscard]] std::uint16_t keys() const noexcept { return keys_; }
  /// The producers of a queue.
  [[nodiscard]] unsigned threads() const noexcept { return threads_; }

 private:
  KeyKind kind_;
  std::uint16_t keys_;
  unsigned threads_;
  std::unique_ptr<Both> both_;
};

/// A new pool without a structure: `Action::create` makes that. slab: it is made in `memory`; pmdk:
/// `memory` holds one from `make_pmdk_pool`, and stays as it is.
[[nodiscard]] Result<std::unique_ptr<Instance>> start_new(const Subject& subject,
                                                          const Vocabulary& vocabulary,
                                                          const Memory& memory);

/// The size of the smallest pool with the slab heap in which the subject can be created; the
/// subject's own where that is too small, or has another heap. One that is larger by a few chunks
/// of the heap is soon full.
[[nodiscard]] std::size_t least_pool_bytes(const Subject& subject, KeyKind key_kind);

struct Recovered {
  std::unique_ptr<Instance> instance;
  bool absent = false;  ///< the pool is sound and holds no such structure
  std::string problem{};
  bool was_closed = false;  ///< the pool says so
};
/// Opens the pool and recovers the structure, with one thread. pmdk: on a copy of `memory`.
[[nodiscard]] Recovered recover(const Subject& subject, const Vocabulary& vocabulary,
                                const Memory& memory);

/// Puts an empty pool with libpmemobj's heap into `memory`, a file; from now on libpmemobj opens
/// copies only (copy_on_write.at_open). Errors: io, failed.
[[nodiscard]] Result<void> make_pmdk_pool(const Memory& memory);
/// Closes a copy that code which was stopped has left open.
void close_copy(const std::byte* base);

/// A registered index or queue that recovers, or a toy ("toy:missing_flush",
/// "toy:missing_flush:repaired"), with options that are not chosen yet. Errors: usage.
[[nodiscard]] Result<Subject> find_subject(const std::string& name);

/// An option that says how much a node holds.
[[nodiscard]] bool is_about_nodes(const IndexOption& option);
/// A small value of every option that is about size, so that few keys make many nodes.
[[nodiscard]] IndexOptions small_options(std::span<const IndexOption> declared);
[[nodiscard]] inline IndexOptions small_options(const IndexInfo& info) {
  return small_options(info.options);
}

}  // namespace perdure::crash
