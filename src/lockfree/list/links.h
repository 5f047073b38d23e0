// Links: how the links of Harris's list become durable: the one thing in which its variants differ.
//
// A policy has
//   settle(link, value)     what `value`, read from `link`, is without marks of the policy, once
//                           what it says is durable
//   ready(window)           after a search, before its result is used
//   depend(link, node)      before an answer that follows from `link`, and from the node it led to
//   written(node)           before a new node is linked
//   change(link, from, to)  a compare-and-swap that decides an operation, durable on return
//   unlink(link, from, to)  one that decides nothing; flushed, and fenced by whoever retires
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "lockfree/memory/node_slab.h"
#include "pm/pm.h"

namespace perdure::lockfree {

inline constexpr std::uint64_t marked = 1;  ///< in a node's `next`: the node is removed
inline constexpr std::uint64_t dirty = 2;   ///< the link may not be durable yet
[[nodiscard]] constexpr std::uint64_t offset_in(std::uint64_t link) noexcept {
  return link & ~std::uint64_t{sizeof(Node) - 1};
}
[[nodiscard]] constexpr bool is_marked(std::uint64_t link) noexcept { return (link & marked) != 0; }

using Link = std::atomic<std::uint64_t>;

/// In this order: a node lies in one line, so a power cut leaves a prefix of it.
inline void write_node(Node& node, std::uint64_t key, std::uint64_t value,
                       std::uint64_t next) noexcept {
  node.key.store(key, std::memory_order_release);
  node.value.store(value, std::memory_order_release);
  node.next.store(next, std::memory_order_release);
}

/// Where a search has ended.
struct Window {
  Link* before = nullptr;  ///< leads to the node that `link` lies in; null: `link` is the head
  Link* link = nullptr;    ///< leads to `at`
  std::uint64_t at = 0;    ///< offset of the first node whose key is not less; 0: there is none
};

[[nodiscard]] inline bool swap_link(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
  return link.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                      std::memory_order_acquire);
}

/// Nothing becomes durable: Harris's list as it is.
struct VolatileLinks {
  static std::uint64_t settle(Link&, std::uint64_t value) noexcept { return value; }
  static void ready(const Window&) noexcept {}
  static void depend(Link&, Node*) noexcept {}
  static void written(Node&) noexcept {}
  static bool change(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    return swap_link(link, from, to);
  }
  static bool unlink(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    return swap_link(link, from, to);
  }
};

/// eADR: visible is durable, and a locked instruction empties the store buffer before it is
/// visible. The fence after it is the paper's.
struct LogFreeLinks : VolatileLinks {
  static bool change(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    if (!swap_link(link, from, to)) return false;
    pm::fence();
    return true;
  }
};

/// Link-and-persist (David et al., ATC 2018): who changes a link leaves it dirty until it has
/// flushed it; who depends on a dirty link flushes it first.
struct DirtyLinks {
  static std::uint64_t settle(Link& link, std::uint64_t value) noexcept {
    if ((value & dirty) == 0) [[likely]]
      return value;
    persist(link, value);
    return value & ~dirty;
  }
  /// A node may be linked after another one only if that is reachable durably: leaving this out
  /// loses acknowledged inserts.
  static void ready(const Window& window) noexcept {
    if (window.before != nullptr)
      static_cast<void>(settle(*window.before, window.before->load(std::memory_order_acquire)));
    static_cast<void>(settle(*window.link, window.link->load(std::memory_order_acquire)));
  }
  static void depend(Link& link, Node*) noexcept {
    static_cast<void>(settle(link, link.load(std::memory_order_acquire)));
  }
  static void written(Node& node) noexcept { pm::persist(&node, sizeof node); }
  static bool change(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    if (!swap_link(link, from, to | dirty)) return false;
    persist(link, to | dirty);
    return true;
  }
  static bool unlink(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    return change(link, from, to);
  }

 private:
  static void persist(Link& link, std::uint64_t value) noexcept {
    pm::persist(&link, sizeof link);
    static_cast<void>(swap_link(link, value, value & ~dirty));
  }
};

/// NVTraverse (Friedman et al., PLDI 2020): nothing is flushed on the way; what a search ends with
/// is, before it is used, and so is every change.
struct TraversedLinks {
  static std::uint64_t settle(Link&, std::uint64_t value) noexcept { return value; }
  static void ready(const Window& window) noexcept {
    if (window.before != nullptr) pm::flush(window.before, sizeof(Link));
    pm::flush(window.link, sizeof(Link));
    pm::fence();
  }
  static void depend(Link& link, Node* node) noexcept {
    pm::flush(&link, sizeof link);
    if (node != nullptr) pm::flush(&node->next, sizeof node->next);
    pm::fence();
  }
  static void written(Node& node) noexcept { pm::persist(&node, sizeof node); }
  static bool change(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    if (!swap_link(link, from, to)) return false;
    pm::persist(&link, sizeof link);
    return true;
  }
  static bool unlink(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    return change(link, from, to);
  }
};

/// FliT (Wei et al., PPoPP 2022) under NVTraverse: a counter by line says whether a change of it is
/// under way; a reader flushes only then.
class CountedLinks {
 public:
  static std::uint64_t settle(Link&, std::uint64_t value) noexcept { return value; }
  void ready(const Window& window) noexcept {
    const bool first = window.before != nullptr && flush_if_changing(*window.before);
    const bool second = flush_if_changing(*window.link);
    if (first || second) pm::fence();
  }
  void depend(Link& link, Node* node) noexcept {
    const bool first = flush_if_changing(link);
    const bool second = node != nullptr && flush_if_changing(node->next);
    if (first || second) pm::fence();
  }
  static void written(Node& node) noexcept { pm::persist(&node, sizeof node); }
  bool change(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    std::atomic<std::uint32_t>& changes = count_of(link);
    changes.fetch_add(1, std::memory_order_acq_rel);
    const bool changed = swap_link(link, from, to);
    if (changed) pm::persist(&link, sizeof link);
    changes.fetch_sub(1, std::memory_order_acq_rel);
    return changed;
  }
  bool unlink(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    return change(link, from, to);
  }

 private:
  static constexpr std::size_t counters = std::size_t{1} << 14;

  [[nodiscard]] std::atomic<std::uint32_t>& count_of(const Link& link) noexcept {
    const auto line = reinterpret_cast<std::uintptr_t>(&link) / pm::cache_line_bytes;
    return (*counter_)[line % counters];  // no mix: a run must not depend on where the pool lies
  }
  [[nodiscard]] bool flush_if_changing(Link& link) noexcept {
    if (count_of(link).load(std::memory_order_acquire) == 0) [[likely]]
      return false;
    pm::flush(&link, sizeof link);
    return true;
  }

  using Counters = std::array<std::atomic<std::uint32_t>, counters>;
  std::unique_ptr<Counters> counter_ = std::make_unique<Counters>();
};

}  // namespace perdure::lockfree
