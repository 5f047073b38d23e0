// Queue toys: small queues with one planted defect each, and sound twins, as toys.h has of indexes.
#pragma once

#include <span>

#include "lockfree/base/queue_registry.h"

namespace perdure::crash {

enum class QueueDefect : std::uint8_t {
  published_ring,       ///< a position for each thread remembers which slot it works on
  shared_undo,          ///< each thread's undo log holds the head and tail that all share
  empty_not_durable,    ///< "empty" is answered while the last pop may still be lost
  early_push,           ///< is visible, and then made durable
  holes,                ///< recovery ends at the first number that no push has used
  payload_unflushed,    ///< beyond its first line
  last_push_forgotten,  ///< once its payload is popped
  blocking_wait,        ///< for a thread that has announced what it does, in a lock-free queue
};
inline constexpr std::size_t queue_defects = 8;
[[nodiscard]] const char* name_of(QueueDefect defect) noexcept;

/// All by defect: "toy:queue_holes", then the twins: "toy:queue_holes:repaired". Not in the
/// registry.
[[nodiscard]] std::span<const QueueInfo> queue_toys();
/// Threads a defect takes to show.
[[nodiscard]] unsigned threads_of(QueueDefect defect) noexcept;

}  // namespace perdure::crash
