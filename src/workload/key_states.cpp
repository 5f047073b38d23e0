#include "workload/key_states.h"

#include <algorithm>

#include "core/assert.h"

namespace perdure::workload {
namespace {

constexpr bool is_add(Operation operation) noexcept {
  return operation == Operation::insert || operation == Operation::upsert;
}

/// Whether `counter` moved between the two states by more than the asker's own begin.
bool moved(std::uint16_t before, std::uint16_t after, bool own) noexcept {
  if (before == after) return false;
  if (!own) return true;
  // A count of removes skips 0 when it wraps.
  const auto next = static_cast<std::uint16_t>(before + 1);
  return after != next && !(next == 0 && after == 1);
}

}  // namespace

std::uint32_t KeyState::begin(Operation operation) noexcept {
  if (pending++ == 0) {
    cluster = begun + 1;
    balance = 0;
    flags &= may_be_present | may_be_absent;
  }
  if (operation == Operation::remove) {
    flags |= remove_begun;
    if (++removes == 0) removes = 1;
    return 0;
  }
  if (is_add(operation)) {
    flags |= add_begun;
    ++adds;
  }
  return ++begun;
}

bool KeyState::end(Operation operation, std::uint32_t version, bool done) noexcept {
  PERDURE_ASSERT(pending != 0);
  --pending;
  if (done) {
    constexpr std::int8_t most = 100;
    if (operation == Operation::insert && balance < most) ++balance;
    if (operation == Operation::upsert) flags |= upsert_done;
    if (operation == Operation::remove) {
      flags |= remove_done;
      if (balance > -most) --balance;
    } else {
      if (version > stored) stored = version;
      if (cluster > floor) floor = cluster;
    }
  }
  return pending != 0 || close_cluster();
}

bool KeyState::close_cluster() noexcept {
  const bool was_present = (flags & may_be_present) != 0;
  const bool was_absent = (flags & may_be_absent) != 0;
  const bool upserted = (flags & upsert_done) != 0;
  const bool removed = (flags & remove_done) != 0;
  const int net = balance;
  bool possible = true;
  if (upserted) {
    // An upsert adds or replaces, so it hides how the inserts and removes alternated.
    flags = removed ? may_be_present | may_be_absent : may_be_present;
  } else {
    const bool from_absent = was_absent && (net == 0 || net == 1);
    const bool from_present = was_present && (net == 0 || net == -1);
    possible = from_absent || from_present;
    const bool present = (from_absent && net == 1) || (from_present && net == 0);
    const bool absent = (from_absent && net == 0) || (from_present && net == -1);
    flags = static_cast<std::uint8_t>((present || !possible ? may_be_present : 0) |
                                      (absent || !possible ? may_be_absent : 0));
  }
  return possible;
}

bool possibly_present_between(const KeyState& before, const KeyState& after,
                              Operation own) noexcept {
  return before.possibly_present() || moved(before.adds, after.adds, is_add(own));
}

bool possibly_absent_between(const KeyState& before, const KeyState& after,
                             Operation own) noexcept {
  return before.possibly_absent() || moved(before.removes, after.removes, own == Operation::remove);
}

KeyStates::KeyStates(std::uint64_t loaded)
    : loaded_(loaded), chunk_(new std::atomic<Chunk*>[capacity / chunk_ids]()) {
  PERDURE_ASSERT(loaded <= capacity);
}

KeyStates::~KeyStates() {
  for (std::uint64_t i = 0; i < capacity / chunk_ids; ++i)
    delete chunk_[i].load(std::memory_order_relaxed);
}

void KeyStates::forget_loaded() {
  loaded_ = 0;
  for (std::uint64_t i = 0; i < capacity / chunk_ids; ++i)
    delete chunk_[i].exchange(nullptr, std::memory_order_relaxed);
}

KeyState& KeyStates::at(std::uint64_t id) {
  PERDURE_ASSERT(id < capacity);
  std::atomic<Chunk*>& slot = chunk_[id / chunk_ids];
  Chunk* chunk = slot.load(std::memory_order_acquire);
  if (chunk == nullptr) {
    auto made = std::make_unique<Chunk>();
    const std::uint64_t first = id / chunk_ids * chunk_ids;
    for (std::uint64_t i = 0; i < chunk_ids; ++i) made->state[i] = untouched(first + i);
    if (slot.compare_exchange_strong(chunk, made.get(), std::memory_order_acq_rel))
      chunk = made.release();
  }
  return chunk->state[id % chunk_ids];
}

KeyState KeyStates::snapshot(std::uint64_t id) {
  PERDURE_ASSERT(id < capacity);
  const Chunk* chunk = chunk_[id / chunk_ids].load(std::memory_order_acquire);
  if (chunk == nullptr) return untouched(id);
  const std::lock_guard guard(lock_[id % lock_.size()]);
  return chunk->state[id % chunk_ids];
}

std::uint64_t KeyStates::end() const noexcept {
  for (std::uint64_t i = capacity / chunk_ids; i > 0; --i)
    if (chunk_[i - 1].load(std::memory_order_acquire) != nullptr)
      return std::max(loaded_, i * chunk_ids);
  return loaded_;
}

}  // namespace perdure::workload
