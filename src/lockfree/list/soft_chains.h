// SoftChains: the part of a SOFT list that is in DRAM: nodes, sorted by key, in one chain for each
// head of `Heads`, with a state in every node's link. It writes nothing to media, and says nothing
// of when a state may change: that is the list's business (soft_list.h).
//
//   node, with the number of its record:  {key, value, next: stride (number + 1) | state of this
//   node}; the stride is the slab's.
//
// C1  the keys of a chain ascend.
// C2  a deleted node's link never changes again. Whoever unlinks it retires it, once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "core/frame.h"
#include "index/registry.h"
#include "lockfree/list/links.h"
#include "lockfree/memory/node_slab.h"
#include "pool/mapping.h"

namespace perdure::lockfree {

struct alignas(32) SoftNode {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;
  Link next;
  std::atomic<std::uint8_t> valid;  ///< what `begun` and `ended` of its record are to be
};

/// What is in a link of a SOFT list.
namespace soft {

inline constexpr std::uint64_t inserted = 0;
inline constexpr std::uint64_t intend_to_insert = 1;
inline constexpr std::uint64_t intend_to_delete = 2;
inline constexpr std::uint64_t deleted = 3;

[[nodiscard]] constexpr std::uint64_t state_in(std::uint64_t word) noexcept {
  return word & deleted;
}
[[nodiscard]] constexpr std::uint64_t offset_of(std::uint64_t word) noexcept {
  return word & ~deleted;
}
[[nodiscard]] inline std::uint64_t state_of(const Link& link) noexcept {
  return state_in(link.load(std::memory_order_acquire));
}
/// Whether lookups find the node.
[[nodiscard]] constexpr bool shows(std::uint64_t word) noexcept {
  return state_in(word) == inserted || state_in(word) == intend_to_delete;
}
/// True: by this call.
inline bool change_state(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
  for (std::uint64_t word = link.load(std::memory_order_acquire); state_in(word) == from;)
    if (link.compare_exchange_weak(word, offset_of(word) | to, std::memory_order_acq_rel))
      return true;
  return false;
}

/// Where a search has ended.
struct Place {
  Link* link = nullptr;    ///< leads to `at`
  std::uint64_t word = 0;  ///< what was read there
  std::uint32_t at = no_node;
};

}  // namespace soft

/// One chain.
class OneHead {
 public:
  void prepare(const IndexOptions&) {}
  [[nodiscard]] Link& of(std::uint64_t) noexcept { return head_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return 1; }
  [[nodiscard]] Link& operator[](std::uint64_t) noexcept { return head_; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return 0; }

 private:
  Link head_{0};
};

template <class Heads>
class SoftChains {
 public:
  using Guard = Reclaimer::Guard;

  /// A node for each of the slab's, which must outlive it. Throws where there is no memory.
  void prepare(const IndexPlace& place, NodeSlab& slab) {
    slab_ = &slab;
    heads_.prepare(place.options);
    constexpr std::uint64_t page = 4096;
    stride_shift_ = slab.stride_shift();
    const std::uint64_t size = std::uint64_t{slab.nodes()} << stride_shift_;
    const std::uint64_t bytes = (size + page - 1) / page * page;
    Result<Mapping> memory = Mapping::anonymous(bytes, 0);
    if (!memory) throw std::bad_alloc();
    memory_ = std::move(memory).value();
    if (place.huge_pages) request_huge_pages(memory_.base(), bytes, Medium::anonymous);
    before_first_ = reinterpret_cast<std::uintptr_t>(memory_.base()) - link_to(0);
  }

  [[nodiscard]] SoftNode& operator[](std::uint32_t number) const noexcept {
    return node_at(link_to(number));
  }
  [[nodiscard]] std::uint64_t link_to(std::uint32_t number) const noexcept {
    return (std::uint64_t{number} + 1) << stride_shift_;
  }

  /// True: `place` leads to the node with the key; else to the first one behind it, if there is
  /// one. Unlinks what is deleted on its way.
  [[nodiscard]] PERDURE_FRAME bool search(const Guard& guard, std::uint64_t key,
                                          soft::Place& place) {
    for (;;) {
      Link& head = heads_.of(key);
      place = {.link = &head, .word = head.load(std::memory_order_acquire)};
      for (;;) {
        if (soft::offset_of(place.word) == 0) return false;
        SoftNode& node = node_at(place.word);
        const std::uint64_t next = node.next.load(std::memory_order_acquire);
        if (soft::state_in(next) == soft::deleted) [[unlikely]] {
          const std::uint64_t without = soft::offset_of(next) | soft::state_in(place.word);
          if (!swap_link(*place.link, place.word, without)) break;
          slab_->retire(guard, slab_->offset_of(number_in(place.word)));
          place.word = without;
          continue;
        }
        const std::uint64_t found = node.key.load(std::memory_order_relaxed);
        if (found >= key) {
          place.at = number_in(place.word);
          return found == key;
        }
        place.link = &node.next;
        place.word = next;
      }
    }
  }
  /// C2. The node at `place` is deleted.
  void unlink(const Guard& guard, std::uint64_t key, soft::Place& place) {
    const std::uint64_t next = (*this)[place.at].next.load(std::memory_order_acquire);
    if (swap_link(*place.link, place.word, soft::offset_of(next) | soft::state_in(place.word)))
      slab_->retire(guard, slab_->offset_of(place.at));
    else
      static_cast<void>(search(guard, key, place));
  }
  /// The caller is alone, and the key is less than all of its chain.
  void link_first(std::uint32_t number) noexcept {
    SoftNode& node = (*this)[number];
    Link& head = heads_.of(node.key.load(std::memory_order_relaxed));
    node.next.store(soft::offset_of(head.load(std::memory_order_relaxed)) | soft::inserted,
                    std::memory_order_relaxed);
    head.store(link_to(number), std::memory_order_release);
  }

  [[nodiscard]] PERDURE_FRAME bool find(std::uint64_t key, std::uint64_t& value) {
    std::uint64_t word = heads_.of(key).load(std::memory_order_acquire);
    while (soft::offset_of(word) != 0) {
      const SoftNode& node = node_at(word);
      word = node.next.load(std::memory_order_acquire);
      const std::uint64_t found = node.key.load(std::memory_order_relaxed);
      if (found < key) continue;
      if (found != key || !soft::shows(word)) break;
      value = node.value.load(std::memory_order_relaxed);
      return true;
    }
    return false;
  }
  /// Calls `each(node, its link)`, chain by chain, until that returns false.
  template <class Each>
  void walk(Each&& each) {
    for (std::uint64_t head = 0; head < heads_.count(); ++head) {
      std::uint64_t word = heads_[head].load(std::memory_order_acquire);
      while (soft::offset_of(word) != 0) {
        const SoftNode& node = node_at(word);
        word = node.next.load(std::memory_order_acquire);
        if (!each(node, word)) return;
      }
    }
  }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return memory_.bytes() + heads_.dram_bytes();
  }

 private:
  [[nodiscard]] std::uint32_t number_in(std::uint64_t word) const noexcept {
    return static_cast<std::uint32_t>((word >> stride_shift_) - 1);
  }
  /// An addition only: every step of a search waits for it.
  [[nodiscard]] SoftNode& node_at(std::uint64_t word) const noexcept {
    return *reinterpret_cast<SoftNode*>(before_first_ + soft::offset_of(word));
  }

  Heads heads_;
  Mapping memory_;
  std::uintptr_t before_first_ = 0;  ///< address of node 0, less the link to it
  unsigned stride_shift_ = 0;
  NodeSlab* slab_ = nullptr;
};

}  // namespace perdure::lockfree
