// SoftList: SOFT (Zuriel et al., OOPSLA 2019): the list is in DRAM (soft_chains.h), its records are
// on media (soft_records.h), and no lookup ever flushes. `Traits::Heads` is one chain, or a hash
// table of them. A node and its record have one number in the slab.
//
// S2  a node's state goes from intend_to_insert over inserted and intend_to_delete to deleted. It
//     is inserted when the record is durable, deleted when the removal is: so what a lookup finds
//     inserted is durable, without a flush. A removal under way still shows.
// S3  who meets an intention that it depends on carries it out, too: creation and removal write the
//     same bytes however often they are done, until the node is retired.
// S4  a deleted node's link never changes again; who unlinks it retires both halves.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "lockfree/list/list_index.h"
#include "lockfree/list/soft_chains.h"
#include "lockfree/list/soft_records.h"

namespace perdure::lockfree {

template <class Traits>
class SoftList : public ListIndex<SoftList<Traits>> {
  using Base = ListIndex<SoftList<Traits>>;
  friend Base;

 public:
  using Guard = typename Base::Guard;
  static constexpr ListKind kind = Traits::kind;

  Outcome add(const Guard& guard, std::uint64_t key, std::uint64_t value) {
    soft::Place place;
    std::uint32_t node = no_node;
    bool added = false;
    while (!added) {
      if (chains_.search(guard, key, place)) {
        if (node != no_node) this->slab().give(node);  // nothing was written to media
        if (soft::state_of(chains_[place.at].next) != soft::intend_to_insert)
          return Outcome::exists;
        node = place.at;  // S3
        break;
      }
      if (node == no_node) {
        if ((node = this->slab().take(guard)) == no_node) return Outcome::out_of_space;
        describe(node, key, value);
      }
      chains_[node].next.store(soft::offset_of(place.word) | soft::intend_to_insert,
                               std::memory_order_release);
      added =
          swap_link(*place.link, place.word, chains_.link_to(node) | soft::state_in(place.word));
    }
    write_record(node);
    pm::fence();
    soft::change_state(chains_[node].next, soft::intend_to_insert, soft::inserted);
    return added ? Outcome::ok : Outcome::exists;
  }

  Outcome take(const Guard& guard, std::uint64_t key) {
    soft::Place place;
    if (!chains_.search(guard, key, place)) return Outcome::not_found;
    SoftNode& node = chains_[place.at];
    if (soft::state_of(node.next) == soft::intend_to_insert) return Outcome::not_found;
    const bool removed = soft::change_state(node.next, soft::inserted, soft::intend_to_delete);
    records_.remove(place.at, node.valid.load(std::memory_order_relaxed));
    soft::change_state(node.next, soft::intend_to_delete, soft::deleted);
    if (!removed) return Outcome::not_found;
    chains_.unlink(guard, key, place);  // S4
    return Outcome::ok;
  }

  Outcome find(const Guard&, std::uint64_t key, std::uint64_t& value) {
    return chains_.find(key, value) ? Outcome::ok : Outcome::not_found;
  }

  std::size_t scan(std::uint64_t from, std::size_t count, IntegerScan& out) final {
    return kind.ordered ? Base::scan(from, count, out) : 0;
  }

  template <class Each>
  void visit(std::uint64_t from, Each&& each) {
    chains_.walk([&](const SoftNode& node, std::uint64_t word) {
      const std::uint64_t key = node.key.load(std::memory_order_relaxed);
      return key < from || !soft::shows(word) ||
             each(key, node.value.load(std::memory_order_relaxed));
    });
  }
  [[nodiscard]] std::uint64_t dram_bytes() const final {
    return Base::dram_bytes() + chains_.dram_bytes();
  }

 private:
  void describe(std::uint32_t node, std::uint64_t key, std::uint64_t value) noexcept {
    chains_[node].key.store(key, std::memory_order_relaxed);
    chains_[node].value.store(value, std::memory_order_relaxed);
    chains_[node].valid.store(records_.next_valid(node), std::memory_order_relaxed);
  }
  /// Durable after a fence.
  void write_record(std::uint32_t node) noexcept {
    const SoftNode& words = chains_[node];
    records_.write(node, words.key.load(std::memory_order_relaxed),
                   words.value.load(std::memory_order_relaxed),
                   words.valid.load(std::memory_order_relaxed));
  }

  /// Nodes in use that do not show.
  [[nodiscard]] std::uint64_t hidden() {
    std::uint64_t count = 0;
    chains_.walk([&](const SoftNode&, std::uint64_t word) {
      count += soft::shows(word) ? 0 : 1;
      return true;
    });
    return count;
  }
  void prepare(const IndexPlace& place) {
    records_.lie_in(this->slab());
    chains_.prepare(place, this->slab());
  }

  [[nodiscard]] Result<void> rebuild() {
    std::vector<std::uint32_t> live;
    records_.for_each([&](std::uint32_t node, std::uint64_t key, std::uint64_t value) {
      describe(node, key, value);
      live.push_back(node);
    });
    const auto key_of = [&](std::uint32_t node) {
      return chains_[node].key.load(std::memory_order_relaxed);
    };
    std::ranges::sort(live, std::greater<>(), key_of);
    if (std::ranges::adjacent_find(live, {}, key_of) != live.end())
      return this->corrupt("two records hold one key");
    for (const std::uint32_t node : live) {
      static_cast<void>(this->slab().free_nodes().claim(node));
      chains_.link_first(node);
    }
    return {};
  }
  [[nodiscard]] std::uint64_t place(std::uint32_t node, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t) {
    describe(node, key, value);
    write_record(node);
    chains_.link_first(node);
    return 0;
  }
  static void set_first(std::uint64_t) {}
  void wipe() { records_.wipe(); }

  SoftChains<typename Traits::Heads> chains_;
  SoftRecords records_;
};

}  // namespace perdure::lockfree
