// What the registry knows of the ring: its variants, their options, and their layout on media.
#include "lockfree/ring/ring.h"

namespace perdure::lockfree {
namespace {

std::vector<IndexOption> tx_options() {
  std::vector<IndexOption> options = persistent_slot_options();
  options.push_back({"pmemobj", "through transactions of libpmemobj; 0: an undo log", 0, 0, 1});
  return options;
}

constexpr SlotOwner txfree{.queue = "ring:txfree"};
constexpr SlotOwner tx{.queue = "ring:tx", .option = "pmemobj", .value = 0};
constexpr SlotOwner tx_pmemobj{.queue = "ring:tx", .option = "pmemobj", .value = 1};

template <class Durable>
MadeQueue create_ring(const QueuePlace& place, const SlotOwner& owner) {
  auto store = SlotStore::create(place, owner, shape_of(place.options, Durable::has_logs));
  if (!store) return store.error();
  const Result<FoundSlots> found = store->look();
  if (!found) return found.error();
  return std::unique_ptr<DurableQueue>(
      std::make_unique<Ring<Durable>>(std::move(store).value(), place.options, *found));
}

template <class Durable>
MadeQueue recover_ring(const QueuePlace& place, const SlotOwner& owner) {
  auto store = SlotStore::recover(place, owner, shape_of(place.options, Durable::has_logs));
  if (!store) return store.error();
  const Result<FoundSlots> found = store->look();
  if (!found) return found.error();
  if (auto same = store->check_content(place, *found); !same) return same.error();
  return std::unique_ptr<DurableQueue>(
      std::make_unique<Ring<Durable>>(std::move(store).value(), place.options, *found));
}

Error needs_pmdk(const QueuePlace& place) {
  return {ErrorCode::unsupported, "ring:tx with pmemobj=1 needs a pool with heap pmdk",
          place.pool->path(), "give PoolOptions::heap pmdk, or pmemobj=0"};
}
bool uses_pmemobj(const QueuePlace& place) { return place.options.get("pmemobj") != 0; }
bool is_pmdk(const QueuePlace& place) { return place.pool->heap_kind() == HeapKind::pmdk; }

MadeQueue create_volatile(const QueuePlace& place) {
  SlotStore store = SlotStore::in_dram(shape_of(place.options, false), place.huge_pages);
  return std::unique_ptr<DurableQueue>(
      std::make_unique<Ring<Volatile>>(std::move(store), place.options, FoundSlots{}));
}
MadeQueue create_txfree(const QueuePlace& place) { return create_ring<TxFree>(place, txfree); }
MadeQueue recover_txfree(const QueuePlace& place) { return recover_ring<TxFree>(place, txfree); }
MadeQueue create_tx(const QueuePlace& place) {
  if (!uses_pmemobj(place)) return create_ring<Tx>(place, tx);
  return is_pmdk(place) ? create_ring<TxPmdk>(place, tx_pmemobj) : needs_pmdk(place);
}
MadeQueue recover_tx(const QueuePlace& place) {
  if (!uses_pmemobj(place)) return recover_ring<Tx>(place, tx);
  return is_pmdk(place) ? recover_ring<TxPmdk>(place, tx_pmemobj) : needs_pmdk(place);
}

const std::vector<HeapKind> all_heaps{HeapKind::slab, HeapKind::dram, HeapKind::pmdk};

}  // namespace

PERDURE_REGISTER_QUEUE(ring_volatile,
                       QueueInfo{.name = "ring",
                                 .mode = "volatile",
                                 .title = "ring buffer in DRAM (pmidio, section 6.3)",
                                 .index_class = IndexClass::in_memory,
                                 .options = slot_options(),
                                 .create = create_volatile});

PERDURE_REGISTER_QUEUE(ring_tx,
                       QueueInfo{.name = "ring",
                                 .mode = "tx",
                                 .title = "ring buffer with transactions (pmidio, section 6.3)",
                                 .detectable = true,
                                 .options = tx_options(),
                                 .heaps = all_heaps,
                                 .create = create_tx,
                                 .recover = recover_tx,
                                 .media = [](const IndexOptions& options) {
                                   const bool has_logs = options.get("pmemobj") == 0;
                                   return media_of_slots(shape_of(options, has_logs));
                                 }});

PERDURE_REGISTER_QUEUE(ring_txfree,
                       QueueInfo{.name = "ring",
                                 .mode = "txfree",
                                 .title = "ring buffer without transactions (pmidio, section 6.3)",
                                 .detectable = true,
                                 .options = persistent_slot_options(),
                                 .heaps = all_heaps,
                                 .create = create_txfree,
                                 .recover = recover_txfree,
                                 .media = [](const IndexOptions& options) {
                                   return media_of_slots(shape_of(options, false));
                                 }});

}  // namespace perdure::lockfree
