// DurableQueue: payloads that leave in the order in which they came, for any number of producers
// and consumers. Beside OrderedIndex (index/index.h) the second kind of structure that the library
// offers; the third, DurableSet, is in lockfree/base/durable_set.h.
//
// Every operation is thread-safe and durably linearizable: when it returns, its effect survives a
// power cut, and nothing is ever returned that a power cut could take back. That holds for the
// answer "empty", too: what was popped before it stays popped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "index/index.h"

namespace perdure {

/// The most bytes that a payload of any queue may have.
inline constexpr std::size_t max_payload_bytes = 64 * 1024;

/// Names a push, so that its producer can ask after a power cut whether it took effect.
struct PushTag {
  std::uint32_t producer = 0;
  std::uint64_t number = 0;  ///< from 1 on, ascending with every push of the producer
};

class DurableQueue {
 public:
  DurableQueue() = default;
  virtual ~DurableQueue() = default;
  DurableQueue(const DurableQueue&) = delete;
  DurableQueue& operator=(const DurableQueue&) = delete;

  /// Appends a payload, which may be empty. ok | out_of_space: the queue is full (it may also be
  /// said while another operation has begun and not returned) | invalid: longer than
  /// `payload_bytes`.
  virtual Outcome push(std::string_view payload) = 0;
  /// The same for a producer that may ask `last_push`. No two threads push for one producer at the
  /// same time. A queue that keeps no tags pushes without.
  virtual Outcome push(std::string_view payload, PushTag /*tag*/) { return push(payload); }
  /// Takes the oldest payload. ok | not_found: the queue is empty, and `payload` is untouched.
  /// Reuse one string: no allocation once it has grown.
  virtual Outcome pop(std::string& payload) = 0;

  /// After a recovery: the number of the producer's last push that took effect, 0 where there is
  /// none. So a producer that was cut off learns whether its push is there, or was and is popped.
  [[nodiscard]] virtual std::uint64_t last_push(std::uint32_t /*producer*/) const { return 0; }

  /// Payloads present. Exact when no operation runs.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Payloads that it can hold; ~0 where only the pool's room limits them.
  [[nodiscard]] virtual std::uint64_t capacity() const = 0;
  /// The longest payload that it takes, at most `max_payload_bytes`.
  [[nodiscard]] virtual std::size_t payload_bytes() const = 0;
  /// Walks the whole structure and checks every invariant its header numbers, and that exactly the
  /// blocks it reaches are live. No other operation may run. Errors: corrupt, naming the invariant.
  [[nodiscard]] virtual Result<void> check_invariants() const = 0;
  /// For a clean close to keep: another number where payloads, their order or what `last_push`
  /// tells are others, but by chance, and the same after a recovery that finds what was there. A
  /// queue may leave out what lies beyond its headers. No other operation may run.
  [[nodiscard]] virtual std::uint64_t content_sum() const { return size(); }
  /// DRAM held beside the pool, in bytes as allocated.
  [[nodiscard]] virtual std::uint64_t dram_bytes() const = 0;
  /// Frees what is retired. No other operation may run.
  virtual void quiesce() {}
};

}  // namespace perdure
