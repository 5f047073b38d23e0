#include "lockfree/ticket/ticket.h"

#include <utility>

namespace perdure::lockfree {
namespace {

constexpr SlotOwner owner{.queue = "ring:ticket"};

Error corrupt(const std::string& what, const Pool& pool) {
  return {ErrorCode::corrupt, what, pool.path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

Result<void> check(const FoundSlots& found, std::uint64_t slots, const Pool& pool) {
  if (found.last_seq - found.last_popped > slots)
    return corrupt("K2: seqs are further apart than there are slots", pool);
  for (const FoundSlots::Live& live : found.live)
    if ((live.seq - 1) % slots != live.slot)
      return corrupt(
          "K1: seq " + std::to_string(live.seq) + " is in slot " + std::to_string(live.slot), pool);
  return {};
}

MadeQueue made(Result<SlotStore> store, const QueuePlace& place, bool recovers) {
  if (!store) return store.error();
  const Result<FoundSlots> found = store->look();
  if (!found) return found.error();
  if (auto sound = check(*found, store->shape().slots, *place.pool); !sound) return sound.error();
  if (recovers)
    if (auto same = store->check_content(place, *found); !same) return same.error();
  return std::unique_ptr<DurableQueue>(
      std::make_unique<TicketRing>(std::move(store).value(), place.options, *found));
}

}  // namespace

MadeQueue TicketRing::create(const QueuePlace& place) {
  return made(SlotStore::create(place, owner, shape_of(place.options, false)), place, false);
}
MadeQueue TicketRing::recover(const QueuePlace& place) {
  return made(SlotStore::recover(place, owner, shape_of(place.options, false)), place, true);
}

TicketRing::TicketRing(SlotStore store, const IndexOptions& options, const FoundSlots& found)
    : store_(std::move(store)),
      durable_(store_),
      slots_(store_.shape().slots),
      streams_(streams_payloads(options)),
      turn_(std::make_unique<Turn[]>(slots_)),
      head_(found.last_popped),
      tail_(found.last_seq),
      durable_mark_(found.last_popped) {
  const std::uint64_t head = found.last_popped;
  for (std::uint64_t ticket = head; ticket < head + slots_; ++ticket)
    turn(ticket).store(ticket < found.last_seq ? hole | turn_of_pop(ticket) : turn_of_push(ticket));
  for (const FoundSlots::Live& live : found.live)
    turn(live.seq - 1).store(turn_of_pop(live.seq - 1));
}

Outcome TicketRing::push(std::string_view payload) {
  if (payload.size() > payload_bytes()) return Outcome::invalid;
  std::uint64_t ticket = tail_.load();
  do {
    if (ticket - head_.load() >= slots_ && ticket == tail_.load()) return Outcome::out_of_space;
  } while (!tail_.compare_exchange_weak(ticket, ticket + 1));
  std::atomic<std::uint64_t>& mine = turn(ticket);
  for (pm::Backoff backoff; mine.load(std::memory_order_acquire) != turn_of_push(ticket);)
    backoff.wait();
  const std::uint64_t slot = ticket % slots_;
  SlotHeader& header = store_.header(slot);
  const bool outside = payload.size() > inline_bytes;
  const bool streams = streams_ && payload.size() >= SlotStore::least_streamed_bytes;
  durable_.fill(slot, payload, {}, streams);
  durable_.fence_payload(outside, streams);
  header.seq.store(ticket + 1, std::memory_order_release);
  durable_.persist_header(header);
  mine.exchange(turn_of_pop(ticket));  // locked: the last store under eADR
  return Outcome::ok;
}

Outcome TicketRing::pop(std::string& payload) {
  for (;;) {
    std::uint64_t ticket = head_.load();
    do {
      if (ticket >= tail_.load()) {
        make_empty_durable();
        return Outcome::not_found;
      }
    } while (!head_.compare_exchange_weak(ticket, ticket + 1));
    std::atomic<std::uint64_t>& mine = turn(ticket);
    std::uint64_t found = mine.load(std::memory_order_acquire);
    for (pm::Backoff backoff; (found & ~hole) != turn_of_pop(ticket);
         found = mine.load(std::memory_order_acquire))
      backoff.wait();
    const bool is_hole = (found & hole) != 0;
    if (!is_hole) {
      const std::uint64_t slot = ticket % slots_;
      const std::size_t bytes = store_.header(slot).len;
      payload.assign(reinterpret_cast<const char*>(store_.payload(slot, bytes)), bytes);
      durable_.persist_mark(ticket + 1);
    }
    mine.exchange(turn_of_push(ticket + slots_));
    if (!is_hole) return Outcome::ok;
  }
}

void TicketRing::make_empty_durable() noexcept {
  const std::uint64_t up_to = head_.load();  // K3
  std::uint64_t known = durable_mark_.load(std::memory_order_acquire);
  if (known >= up_to) return;
  if (store_.mark(pm::thread_slot()).seq.load(std::memory_order_relaxed) < up_to)
    durable_.persist_mark(up_to);
  while (known < up_to && !durable_mark_.compare_exchange_weak(known, up_to)) {
  }
}

std::uint64_t TicketRing::size() const {
  std::uint64_t count = 0;
  const std::uint64_t tail = tail_.load();
  for (std::uint64_t ticket = head_.load(); ticket < tail; ++ticket)
    count += turn(ticket).load() == turn_of_pop(ticket) ? 1U : 0U;
  return count;
}

Result<void> TicketRing::check_invariants() const {
  const Result<FoundSlots> found = store_.look();
  if (!found) return found.error();
  const Pool& pool = store_.pool();
  if (auto sound = check(*found, slots_, pool); !sound) return sound;
  if (found->live.size() != size())
    return corrupt("K1: " + std::to_string(found->live.size()) + " slots are live, " +
                       std::to_string(size()) + " have their turn",
                   pool);
  if (tail_.load() - head_.load() > slots_ || head_.load() < found->last_popped)
    return corrupt("K2: tickets are further apart than there are slots", pool);
  return store_.check_blocks();
}

PERDURE_REGISTER_QUEUE(
    ring_ticket,
    QueueInfo{.name = "ring",
              .mode = "ticket",
              .title = "ring buffer whose tickets lead to slots, as published (pmidio)",
              .progress = Progress::blocking,
              .options = persistent_slot_options(),
              .heaps = {HeapKind::slab, HeapKind::dram, HeapKind::pmdk},
              .create = TicketRing::create,
              .recover = TicketRing::recover,
              .media = [](const IndexOptions& options) {
                return media_of_slots(shape_of(options, false));
              }});

}  // namespace perdure::lockfree
