#include "lockfree/ticket/ticket.h"

#include <utility>
#include <vector>

namespace perdure::lockfree {
namespace {

constexpr SlotOwner owner{.queue = "ring:ticket"};

Error corrupt(const std::string& what, const Pool& pool) {
  return {ErrorCode::corrupt, what, pool.path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

MadeQueue made(Result<SlotStore> store, const QueuePlace& place, bool recovers) {
  if (!store) return store.error();
  const Result<FoundSlots> found = store->look();
  if (!found) return found.error();
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
      paths_(options),
      turn_(std::make_unique<Turn[]>(slots_)),
      base_(found.last_seq - found.live.size()),
      head_(0),
      tail_(found.live.size()),
      durable_mark_(found.last_popped) {
  std::uint64_t ticket = 0;
  for (const FoundSlots::Live& live : found.live) {
    turn_[ticket].slot = live.slot;
    turn_[ticket].word.store(turn_of_pop(ticket));
    ++ticket;
  }
  for (const std::uint32_t slot : found.dead) {
    turn_[ticket].slot = slot;
    turn_[ticket].word.store(turn_of_push(ticket));
    ++ticket;
  }
}

Outcome TicketRing::push(std::string_view payload) {
  if (payload.size() > payload_bytes()) return Outcome::invalid;
  std::uint64_t ticket = tail_.load();
  do {
    if (ticket - head_.load() >= slots_ && ticket == tail_.load()) return Outcome::out_of_space;
  } while (!tail_.compare_exchange_weak(ticket, ticket + 1));
  Turn& mine = turn(ticket);
  for (pm::Backoff backoff; mine.word.load(std::memory_order_acquire) != turn_of_push(ticket);)
    backoff.wait();
  SlotHeader& header = store_.header(mine.slot);
  const bool outside = payload.size() > inline_bytes;
  const PayloadPath path = paths_.of(payload.size());
  durable_.fill(mine.slot, payload, {}, path);
  durable_.fence_payload(outside, path);
  header.seq.store(base_ + ticket + 1, std::memory_order_release);
  durable_.persist_header(header);
  mine.word.exchange(turn_of_pop(ticket));  // locked: the last store under eADR
  return Outcome::ok;
}

Outcome TicketRing::pop(std::string& payload) {
  have_mark();
  std::uint64_t ticket = head_.load();
  do {
    if (ticket >= tail_.load()) {
      make_empty_durable();
      return Outcome::not_found;
    }
  } while (!head_.compare_exchange_weak(ticket, ticket + 1));
  Turn& mine = turn(ticket);
  for (pm::Backoff backoff; mine.word.load(std::memory_order_acquire) != turn_of_pop(ticket);)
    backoff.wait();
  const SlotHeader& header = store_.header(mine.slot);
  payload.assign(reinterpret_cast<const char*>(store_.payload(mine.slot, header.len)), header.len);
  durable_.persist_mark(header.seq.load(std::memory_order_relaxed));
  mine.word.exchange(turn_of_push(ticket + slots_));
  return Outcome::ok;
}

void TicketRing::make_empty_durable() noexcept {
  const std::uint64_t up_to = base_ + head_.load();  // K3
  std::uint64_t known = durable_mark_.load(std::memory_order_acquire);
  if (known >= up_to) return;
  if (store_.mark(pm::thread_slot()).seq.load(std::memory_order_relaxed) < up_to)
    durable_.persist_mark(up_to);
  while (known < up_to && !durable_mark_.compare_exchange_weak(known, up_to)) {
  }
}

std::uint64_t TicketRing::size() const {
  const std::uint64_t head = head_.load();
  return tail_.load() - head;
}

Result<void> TicketRing::check_invariants() const {
  const Result<FoundSlots> found = store_.look();
  if (!found) return found.error();
  const Pool& pool = store_.pool();
  const std::uint64_t head = head_.load();
  if (size() > slots_) return corrupt("K2: more tickets are in use than there are slots", pool);
  if (found->live.size() != size())
    return corrupt("K2: " + std::to_string(found->live.size()) + " slots are live, " +
                       std::to_string(size()) + " tickets in use",
                   pool);
  for (std::uint64_t i = 0; i < size(); ++i)
    if (found->live[i].slot != turn(head + i).slot)
      return corrupt(
          "K1: slot " + std::to_string(found->live[i].slot) + " is not that of its ticket", pool);
  std::vector<bool> seen(slots_);
  for (std::uint64_t i = 0; i < slots_; ++i) {
    if (seen[turn_[i].slot]) return corrupt("K1: two tickets have one slot", pool);
    seen[turn_[i].slot] = true;
  }
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
