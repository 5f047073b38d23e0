// HarrisList: the sorted lock-free list (Harris, DISC 2001; searches as in Michael, SPAA 2002),
// over a policy that makes its links durable (links.h).
//
//   head -> node {key, value, next | marked, -} -> ... -> 0
//
// H1  a node is in the list <=> it can be reached from the head and its `next` is not marked. A
//     marked `next` never changes again, but for the policy's own marks.
// H2  keys ascend; a key is in the list once.
// H3  key, value and `next` of a node are durable before a link leads to it.
// H4  a node is linked after another only when the links that lead there are durable.
// H5  a marked node is unlinked after its mark is durable, and retired by whoever unlinks it.
#pragma once

#include <cstdint>
#include <string>

#include "core/frame.h"
#include "lockfree/list/links.h"
#include "lockfree/list/list_index.h"
#include "lockfree/list/relink.h"

namespace perdure::lockfree {

/// Ends at the first node whose key is not less than `key`; true: it has that key. Unlinks the
/// marked nodes on its way.
template <class Links>
[[nodiscard]] PERDURE_FRAME bool search(NodeSlab& slab, Links& links, const Reclaimer::Guard& guard,
                                        Link& head, std::uint64_t key, Window& window) {
  for (;;) {
    window = {
        .before = nullptr, .link = &head, .at = offset_in(head.load(std::memory_order_acquire))};
    for (;;) {
      if (window.at == 0) return false;
      Node& node = slab.at(window.at);
      const std::uint64_t next = node.next.load(std::memory_order_acquire);
      if (is_marked(next)) [[unlikely]] {
        static_cast<void>(links.settle(node.next, next));  // H5
        const std::uint64_t current = window.link->load(std::memory_order_acquire);
        if (is_marked(current) || offset_in(current) != window.at) break;
        if (!links.unlink(*window.link, links.settle(*window.link, current), offset_in(next)))
          break;
        slab.retire(guard, window.at);
        window.at = offset_in(next);
        continue;
      }
      const std::uint64_t found = node.key.load(std::memory_order_relaxed);
      if (found >= key) return found == key;
      window.before = window.link;
      window.link = &node.next;
      window.at = offset_in(next);
    }
  }
}

/// `Traits` has the list's kind and its policy.
template <class Traits>
class HarrisList : public ListIndex<HarrisList<Traits>> {
  using Base = ListIndex<HarrisList<Traits>>;
  friend Base;

 public:
  using Guard = typename Base::Guard;
  static constexpr ListKind kind = Traits::kind;

  Outcome add(const Guard& guard, std::uint64_t key, std::uint64_t value) {
    std::uint32_t node = no_node;
    Window window;
    for (;;) {
      const bool present = search(this->slab(), links_, guard, head(), key, window);
      links_.ready(window);
      if (present) {
        links_.depend(*window.link, &this->at(window.at));
        if (node != no_node) this->slab().give(node);
        return Outcome::exists;
      }
      if (node == no_node && (node = this->slab().take(guard)) == no_node)
        return Outcome::out_of_space;
      const std::uint64_t offset = this->slab().offset_of(node);
      write_node(this->at(offset), key, value, window.at);
      links_.written(this->at(offset));
      if (links_.change(*window.link, window.at, offset)) return Outcome::ok;
    }
  }

  Outcome take(const Guard& guard, std::uint64_t key) {
    Window window;
    for (;;) {
      const bool present = search(this->slab(), links_, guard, head(), key, window);
      links_.ready(window);
      if (!present) return Outcome::not_found;
      Node& node = this->at(window.at);
      const std::uint64_t next =
          links_.settle(node.next, node.next.load(std::memory_order_acquire));
      if (is_marked(next) || !links_.change(node.next, next, next | marked)) continue;
      if (links_.unlink(*window.link, window.at, next))
        this->slab().retire(guard, window.at);
      else
        static_cast<void>(search(this->slab(), links_, guard, head(), key, window));
      return Outcome::ok;
    }
  }

  PERDURE_FRAME Outcome find(const Guard&, std::uint64_t key, std::uint64_t& value) {
    Link* link = &head();
    std::uint64_t offset = offset_in(link->load(std::memory_order_acquire));
    while (offset != 0) {
      Node& node = this->at(offset);
      const std::uint64_t found = node.key.load(std::memory_order_relaxed);
      if (found >= key) {
        if (found != key) break;
        return shows(*link, node, value) ? Outcome::ok : Outcome::not_found;
      }
      link = &node.next;
      offset = offset_in(link->load(std::memory_order_acquire));
    }
    links_.depend(*link, nullptr);
    return Outcome::not_found;
  }

  template <class Each>
  void visit(std::uint64_t from, Each&& each) {
    Link* link = &head();
    for (std::uint64_t offset; (offset = offset_in(link->load(std::memory_order_acquire))) != 0;) {
      Node& node = this->at(offset);
      const std::uint64_t key = node.key.load(std::memory_order_relaxed);
      std::uint64_t value = 0;
      if (key >= from && shows(*link, node, value) && !each(key, value)) return;
      link = &node.next;
    }
  }

 private:
  [[nodiscard]] Link& head() const noexcept { return this->slab().top().head; }
  /// True where the node that `link` led to is in the list, durably; its value is `value` then.
  [[nodiscard]] bool shows(Link& link, Node& node, std::uint64_t& value) {
    links_.depend(link, &node);
    if (is_marked(links_.settle(node.next, node.next.load(std::memory_order_acquire))))
      return false;
    value = node.value.load(std::memory_order_relaxed);
    return true;
  }

  /// Nodes in use that are not in the list: marked ones whose remover was stopped.
  [[nodiscard]] std::uint64_t hidden() const { return marked_nodes(this->slab(), head()); }

  [[nodiscard]] Result<void> rebuild() {
    const char* const wrong = relink(this->slab(), head());
    return wrong == nullptr ? Result<void>() : this->corrupt(wrong);
  }
  [[nodiscard]] std::uint64_t place(std::uint32_t node, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t next) {
    const std::uint64_t offset = this->slab().offset_of(node);
    write_node(this->at(offset), key, value, next);
    if (kind.persistent) pm::flush(&this->at(offset), sizeof(Node));
    return offset;
  }
  void set_first(std::uint64_t offset) {
    if (kind.persistent)
      pm::store_persist(head(), offset);
    else
      head().store(offset, std::memory_order_release);
  }
  void wipe() { pm::store_persist(head(), 0); }

  [[no_unique_address]] typename Traits::Links links_{};
};

}  // namespace perdure::lockfree
