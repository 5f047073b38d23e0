// The registry of queues: as IndexRegistry (index/registry.h) is for indexes, so that the command
// line, the benchmark, the explorer and the suites know each of them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "index/registry.h"
#include "lockfree/base/durable_queue.h"
#include "pool/pool.h"

namespace perdure {

/// What a queue is created or recovered with.
struct QueuePlace {
  Pool* pool = nullptr;             ///< persistent only
  std::string root_name = "queue";  ///< persistent only: its root in the pool
  IndexOptions options{};
  bool huge_pages = true;  ///< for DRAM parts
};

using MadeQueue = Result<std::unique_ptr<DurableQueue>>;

struct QueueInfo {
  std::string name;    ///< "ring"
  std::string mode{};  ///< "txfree"; empty where there is but one
  std::string title;   ///< "ring buffer without transactions (pmidio, section 6.3)"
  IndexClass index_class = IndexClass::persistent;  ///< persistent or in_memory
  Progress progress = Progress::lock_free;
  bool detectable = false;   ///< `last_push` answers
  bool native_only = false;  ///< lives in a foreign library, which a simulation cannot see into
  std::vector<IndexOption> options{};
  std::vector<HeapKind> heaps{};  ///< empty: slab and dram

  /// Makes an empty queue. Errors: usage, exists, out_of_space.
  MadeQueue (*create)(const QueuePlace&) = nullptr;
  /// Recovers from what `place` holds, clean or crashed. Null for in_memory.
  /// Errors: not_found (no such root), foreign (another structure or options), corrupt, newer,
  /// out_of_space.
  MadeQueue (*recover)(const QueuePlace&) = nullptr;

  /// Describes what lies on media with these options, for counterexamples. Null: shown as bytes.
  std::vector<MediaStruct> (*media)(const IndexOptions&) = nullptr;

  /// "ring:txfree", "optunlinkedq": what `QueueRegistry::find` takes.
  [[nodiscard]] std::string full_name() const { return mode.empty() ? name : name + ":" + mode; }
  [[nodiscard]] bool works_on(HeapKind heap) const noexcept;
};

class QueueRegistry {
 public:
  /// All registered queues, by full name.
  [[nodiscard]] static std::span<const QueueInfo> all();
  /// Errors: usage, with the nearest name as the remedy ("did you mean").
  [[nodiscard]] static Result<const QueueInfo*> find(std::string_view name);
  /// Checks `name=value` pairs against what the queue declares. Errors: usage.
  [[nodiscard]] static Result<IndexOptions> options(const QueueInfo& info,
                                                    std::span<const std::string> pairs);
  static bool add(QueueInfo info);
};

/// Options that `place` does not name get their defaults. Errors, besides those of the queue: usage
/// (an option or a pool that it cannot have; create: roots of the pool are not recovered yet),
/// unsupported (the pool's heap).
[[nodiscard]] MadeQueue create_queue(const QueueInfo& info, const QueuePlace& place);
[[nodiscard]] MadeQueue recover_queue(const QueueInfo& info, const QueuePlace& place);

/// Before a pool is closed: tells it what the queue holds, so that the next opening notices damage.
/// Of an index the pool keeps how many records there are (Pool::note_settled); of a queue, whose
/// payloads have an order, a sum over them. No operation may follow.
void settle_queue(DurableQueue& queue, Pool& pool, std::string_view root_name);

}  // namespace perdure

/// Registers a queue at start-up: PERDURE_REGISTER_QUEUE(ring_txfree, QueueInfo{...});
#define PERDURE_REGISTER_QUEUE(identifier, ...) \
  static const bool identifier##_is_registered = ::perdure::QueueRegistry::add(__VA_ARGS__)
