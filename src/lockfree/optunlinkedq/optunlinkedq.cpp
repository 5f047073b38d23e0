#include "lockfree/optunlinkedq/optunlinkedq.h"

#include <cstring>
#include <utility>
#include <vector>

namespace perdure::lockfree {
namespace {

/// One slot is that of the node at the head.
constexpr SlotOwner owner{.queue = "optunlinkedq", .spare = 1};
constexpr std::uint64_t most_slots = std::uint64_t{1} << 28;

SlotShape shape_with_spare(const IndexOptions& options) {
  SlotShape shape = shape_of(options, false);
  shape.slots += owner.spare;
  return shape;
}

Error corrupt(const std::string& what, const Pool& pool) {
  return {ErrorCode::corrupt, what, pool.path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

MadeQueue made(Result<SlotStore> store, const QueuePlace& place, bool recovers) {
  if (!store) return store.error();
  const Result<FoundSlots> found = store->look();
  if (!found) return found.error();
  if (found->dead.empty()) return corrupt("U1: every slot is live", *place.pool);
  if (recovers)
    if (auto same = store->check_content(place, *found); !same) return same.error();
  return std::unique_ptr<DurableQueue>(
      std::make_unique<OptUnlinkedQ>(std::move(store).value(), place.options, *found));
}

}  // namespace

MadeQueue OptUnlinkedQ::create(const QueuePlace& place) {
  return made(SlotStore::create(place, owner, shape_with_spare(place.options)), place, false);
}
MadeQueue OptUnlinkedQ::recover(const QueuePlace& place) {
  return made(SlotStore::recover(place, owner, shape_with_spare(place.options)), place, true);
}

OptUnlinkedQ::OptUnlinkedQ(SlotStore store, const IndexOptions& options, const FoundSlots& found)
    : store_(std::move(store)),
      durable_(store_),
      paths_(options),
      node_(std::make_unique<Node[]>(store_.shape().slots)),
      free_(static_cast<std::uint32_t>(store_.shape().slots)),
      head_(found.dead.front()),
      tail_(found.dead.front()),
      durable_mark_(found.last_popped) {
  node_[found.dead.front()].seq = found.last_popped;
  static_cast<void>(free_.claim(found.dead.front()));
  for (const FoundSlots::Live& live : found.live) {
    static_cast<void>(free_.claim(live.slot));
    const SlotHeader& header = store_.header(live.slot);
    Node& node = node_[live.slot];
    node.len = header.len;
    node.seq = live.seq;
    if (node.len <= inline_bytes)
      std::memcpy(node.short_payload.data(), header.short_payload.data(), node.len);
    node_[tail_.load()].next.store(live.slot);
    tail_.store(live.slot);
  }
}

// The caller is not pinned. Others may take what it has collected, some times in a row.
std::uint32_t OptUnlinkedQ::take_slot() noexcept {
  constexpr unsigned tries = 4;
  for (unsigned i = 0;; ++i) {
    const std::uint32_t slot = free_.take(pm::thread_slot());
    if (slot != none || i == tries || !reclaimer_.collect()) return slot;
  }
}

void OptUnlinkedQ::fill(std::uint32_t slot, std::string_view payload) noexcept {
  Node& node = node_[slot];
  node.next.store(none, std::memory_order_relaxed);
  node.len = static_cast<std::uint32_t>(payload.size());
  if (payload.size() <= inline_bytes)
    std::memcpy(node.short_payload.data(), payload.data(), payload.size());
  const PayloadPath path = paths_.of(payload.size());
  durable_.fill(slot, payload, {}, path);
  durable_.fence_payload(payload.size() > inline_bytes, path);
}

std::uint32_t OptUnlinkedQ::link(std::uint32_t slot) noexcept {
  for (;;) {
    std::uint32_t last = tail_.load();
    std::uint32_t next = node_[last].next.load();
    if (next != none) {
      tail_.compare_exchange_strong(last, next);
      continue;
    }
    node_[slot].seq = node_[last].seq + 1;
    if (node_[last].next.compare_exchange_strong(next, slot)) return last;
  }
}

Outcome OptUnlinkedQ::push(std::string_view payload) {
  if (payload.size() > payload_bytes()) return Outcome::invalid;
  const std::uint32_t slot = take_slot();
  if (slot == none) return Outcome::out_of_space;
  fill(slot, payload);
  const Reclaimer::Guard guard(reclaimer_);
  std::uint32_t last = link(slot);
  SlotHeader& header = store_.header(slot);
  header.seq.store(node_[slot].seq, std::memory_order_release);  // U2, U4
  durable_.persist_header(header);
  tail_.compare_exchange_strong(last, slot);  // locked: the last store under eADR
  return Outcome::ok;
}

Outcome OptUnlinkedQ::pop(std::string& payload) {
  const Reclaimer::Guard guard(reclaimer_);
  for (;;) {
    std::uint32_t head = head_.load();
    std::uint32_t tail = tail_.load();
    const std::uint32_t first = node_[head].next.load();
    if (head != head_.load()) continue;  // else `first` may be behind a node that is popped
    if (first == none) {
      make_empty_durable(node_[head].seq);
      return Outcome::not_found;
    }
    if (head == tail) {
      tail_.compare_exchange_strong(tail, first);
      continue;
    }
    if (!head_.compare_exchange_strong(head, first)) continue;
    const Node& node = node_[first];
    const char* const from = node.len <= inline_bytes
                                 ? node.short_payload.data()
                                 : reinterpret_cast<const char*>(store_.payload(first, node.len));
    payload.assign(from, node.len);
    persist_mark(node.seq);
    reclaimer_.retire(guard, head);  // U4; locked: the last store under eADR
    return Outcome::ok;
  }
}

// Past the caches, as in the paper: the thread's next pop need not fetch a line that was flushed.
void OptUnlinkedQ::persist_mark(std::uint64_t seq) noexcept {
  Mark& mine = store_.mark(pm::thread_slot());
  if (!durable_.flushes()) {
    mine.seq.store(seq, std::memory_order_release);
    return;
  }
  pm::stream(&mine.seq, &seq, sizeof seq);
  pm::fence();
}

void OptUnlinkedQ::make_empty_durable(std::uint64_t seq) noexcept {
  std::uint64_t known = durable_mark_.load(std::memory_order_acquire);
  if (known >= seq) return;
  if (store_.mark(pm::thread_slot()).seq.load(std::memory_order_relaxed) < seq) persist_mark(seq);
  while (known < seq && !durable_mark_.compare_exchange_weak(known, seq)) {
  }
}

std::uint64_t OptUnlinkedQ::size() const {
  std::uint64_t count = 0;
  for (std::uint32_t at = node_[head_.load()].next.load(); at != none; at = node_[at].next.load())
    ++count;
  return count;
}

Result<void> OptUnlinkedQ::check_invariants() const {
  const Pool& pool = store_.pool();
  const Result<FoundSlots> found = store_.look();
  if (!found) return found.error();
  std::vector<bool> seen(store_.shape().slots);
  std::uint64_t count = 0;
  const auto see = [&](std::uint32_t slot) {
    if (!seen[slot]) ++count;
    seen[slot] = true;
  };
  see(head_.load());
  std::size_t place = 0;
  for (std::uint32_t at = node_[head_.load()].next.load(); at != none; at = node_[at].next.load()) {
    if (place == found->live.size() || found->live[place].slot != at ||
        found->live[place].seq != node_[at].seq)
      return corrupt("U1: slot " + std::to_string(at) + " is linked, but not live in this place",
                     pool);
    ++place;
    see(at);
  }
  if (place != found->live.size()) return corrupt("U1: a live slot is not linked", pool);
  for (std::uint32_t slot = 0; slot < free_.size(); ++slot)
    if (free_.is_free(slot)) see(slot);
  if (count + reclaimer_.retired() != seen.size()) return corrupt("U4: a slot is nowhere", pool);
  return store_.check_blocks();
}

std::uint64_t OptUnlinkedQ::dram_bytes() const {
  const std::uint64_t slots = store_.shape().slots;
  return store_.dram_bytes() + slots * sizeof(Node) + free_.dram_bytes() + reclaimer_.dram_bytes() +
         sizeof *this;
}

namespace {

std::vector<IndexOption> options() {
  std::vector<IndexOption> options = persistent_slot_options();
  for (IndexOption& option : options)
    if (option.name == "slots") option.most = most_slots;
  return options;
}

PERDURE_REGISTER_QUEUE(optunlinkedq,
                       QueueInfo{.name = "optunlinkedq",
                                 .title = "OptUnlinkedQ (Sela and Petrank, SPAA 2021)",
                                 .options = options(),
                                 .heaps = {HeapKind::slab, HeapKind::dram, HeapKind::pmdk},
                                 .create = OptUnlinkedQ::create,
                                 .recover = OptUnlinkedQ::recover,
                                 .media = [](const IndexOptions& options) {
                                   return media_of_slots(shape_with_spare(options));
                                 }});

}  // namespace
}  // namespace perdure::lockfree
