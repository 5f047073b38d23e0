#include "lockfree/list/relink.h"

namespace perdure::lockfree {

const char* relink(NodeSlab& slab, Link& head) {
  constexpr auto relaxed = std::memory_order_relaxed;
  Link* link = &head;
  const Node* before = nullptr;
  for (std::uint64_t steps = 0;;) {
    const std::uint64_t stored = link->load(relaxed);
    std::uint64_t offset = offset_in(stored);
    for (; offset != 0; offset = offset_in(slab.at(offset).next.load(relaxed))) {
      if (slab.node_at(offset) == no_node || ++steps > 2 * std::uint64_t{slab.nodes()})
        return "a link leads to where no node is";
      if (!is_marked(slab.at(offset).next.load(relaxed))) break;
    }
    if (offset != stored) pm::store_persist(*link, offset);
    if (offset == 0) return nullptr;
    Node& node = slab.at(offset);
    if (before != nullptr && before->key.load(relaxed) >= node.key.load(relaxed))
      return "its keys do not ascend";
    if (!slab.free_nodes().claim(slab.node_at(offset))) return "a node is in it twice";
    before = &node;
    link = &node.next;
  }
}

std::uint64_t marked_nodes(const NodeSlab& slab, const Link& head) noexcept {
  std::uint64_t count = 0;
  for (std::uint64_t offset = offset_in(head.load(std::memory_order_acquire)); offset != 0;) {
    const std::uint64_t next = slab.at(offset).next.load(std::memory_order_acquire);
    count += is_marked(next) ? 1 : 0;
    offset = offset_in(next);
  }
  return count;
}

}  // namespace perdure::lockfree
