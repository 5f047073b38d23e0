// BoostQueue: boost::lockfree::queue beside the rings, in DRAM.
//
// The queue holds numbers of slots, and a boost::lockfree::stack those that are free; payloads lie
// in slots in DRAM as those of `ring:volatile` do, so that the two differ in their queue only. Both
// have nodes for all slots from the start (fixed_sized): boost's own growth would lock in malloc.
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/stack.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockfree/slots/slot_store.h"

namespace perdure::lockfree {
namespace {

/// fixed_sized addresses nodes with 16 bits, and the queue needs one more than it holds.
constexpr std::uint64_t most_slots = 65534;

class BoostQueue final : public DurableQueue {
 public:
  [[nodiscard]] static MadeQueue create(const QueuePlace& place) {
    return std::unique_ptr<DurableQueue>(std::make_unique<BoostQueue>(
        SlotStore::in_dram(shape_of(place.options, false), place.huge_pages)));
  }

  explicit BoostQueue(SlotStore store)
      : store_(std::move(store)), full_(store_.shape().slots), free_(store_.shape().slots) {
    for (auto slot = static_cast<std::uint32_t>(store_.shape().slots); slot-- > 0;)
      free_.bounded_push(slot);
  }

  Outcome push(std::string_view payload) override {
    if (payload.size() > payload_bytes()) return Outcome::invalid;
    std::uint32_t slot = 0;
    if (!free_.pop(slot)) return Outcome::out_of_space;
    store_.header(slot).len = static_cast<std::uint32_t>(payload.size());
    if (!payload.empty())
      payload.copy(reinterpret_cast<char*>(store_.payload(slot, payload.size())), payload.size());
    // A node of the queue becomes free after its pop has returned the slot of the node before:
    // where threads overtake each other, there may be none for a moment.
    if (full_.bounded_push(slot)) return Outcome::ok;
    free_.bounded_push(slot);
    return Outcome::out_of_space;
  }

  Outcome pop(std::string& payload) override {
    std::uint32_t slot = 0;
    if (!full_.pop(slot)) return Outcome::not_found;
    const std::size_t bytes = store_.header(slot).len;
    payload.assign(reinterpret_cast<const char*>(store_.payload(slot, bytes)), bytes);
    free_.bounded_push(slot);
    return Outcome::ok;
  }

  [[nodiscard]] std::uint64_t size() const override {
    return store_.shape().slots - all_free().size();
  }
  [[nodiscard]] std::uint64_t capacity() const override { return store_.shape().slots; }
  [[nodiscard]] std::size_t payload_bytes() const override { return store_.shape().payload_bytes; }
  /// Neither container can be looked into: both are emptied and filled again.
  [[nodiscard]] Result<void> check_invariants() const override {
    std::vector<bool> seen(store_.shape().slots);
    std::vector<std::uint32_t> full;
    for (std::uint32_t slot = 0; full_.pop(slot);) full.push_back(slot);
    for (const std::uint32_t slot : full) full_.bounded_push(slot);
    std::vector<std::uint32_t> all = all_free();
    all.insert(all.end(), full.begin(), full.end());
    for (const std::uint32_t slot : all) {
      if (slot >= seen.size() || seen[slot]) return corrupt("a slot is there twice");
      seen[slot] = true;
    }
    return all.size() == seen.size() ? Result<void>{} : corrupt("a slot is nowhere");
  }
  [[nodiscard]] std::uint64_t dram_bytes() const override {
    constexpr std::uint64_t node_bytes = 2 * 64;  // each node of either container has a line
    return store_.dram_bytes() + store_.shape().slots * node_bytes;
  }

 private:
  using FixedSize = boost::lockfree::fixed_sized<true>;

  [[nodiscard]] static Error corrupt(const char* what) {
    return {ErrorCode::corrupt, what, "boostqueue", "report this"};
  }
  [[nodiscard]] std::vector<std::uint32_t> all_free() const {
    std::vector<std::uint32_t> slots;
    for (std::uint32_t slot = 0; free_.pop(slot);) slots.push_back(slot);
    for (std::size_t i = slots.size(); i-- > 0;) free_.bounded_push(slots[i]);
    return slots;
  }

  SlotStore store_;
  mutable boost::lockfree::queue<std::uint32_t, FixedSize> full_;
  mutable boost::lockfree::stack<std::uint32_t, FixedSize> free_;
};

std::vector<IndexOption> options() {
  std::vector<IndexOption> options = slot_options();
  for (IndexOption& option : options)
    if (option.name == "slots") option.most = most_slots;
  return options;
}

PERDURE_REGISTER_QUEUE(boostqueue, QueueInfo{.name = "boostqueue",
                                             .title = "boost::lockfree::queue",
                                             .index_class = IndexClass::in_memory,
                                             .options = options(),
                                             .create = BoostQueue::create});

}  // namespace
}  // namespace perdure::lockfree
