// TLog list (pmidio, section 6.2): Harris's list whose threads log the change that they are about
// to make, so that no lookup flushes. See design.md.
//
//   node {key, value, next | marked, meta: generation << 1 | in flight}
//   log  one for each thread slot (log.h)
//
// T1  a node is born dead: its generation, then key and value, and last the link that is not
//     marked any more. So no log of its earlier use counts.
// T2  a change is logged durably before it is visible. Recovery completes it: an insertion that
//     lost the race against another one of its key is taken back durably before it returns.
// T3  a node is in flight until the link that leads to it is durable. Recovery follows the links
//     of logged nodes that are not marked, too, so what lies behind one is not lost.
// T4  who removes a node in flight makes the link that leads to it durable first.
// T5  as a map: of two logged insertions of one key recovery may take either, so a lookup makes
//     the link to a node in flight durable before it gives its value away.
// T6  a node is retired after its unlink was flushed; the retirement is the fence.
#pragma once

#include "lockfree/list/links.h"

namespace perdure::lockfree {

inline constexpr std::uint64_t in_flight = 1;

[[nodiscard]] inline std::uint64_t generation_of(const Node& node) noexcept {
  return node.meta.load(std::memory_order_acquire) >> 1;
}
[[nodiscard]] inline bool is_in_flight(const Node& node) noexcept {
  return (node.meta.load(std::memory_order_acquire) & in_flight) != 0;
}
/// Not flushed: on media the mark means nothing.
inline void settle(Node& node) noexcept {
  node.meta.store(node.meta.load(std::memory_order_relaxed) & ~in_flight,
                  std::memory_order_release);
}

}  // namespace perdure::lockfree
