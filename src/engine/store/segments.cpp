#include "engine/store/segments.h"

#include <algorithm>

namespace perdure::engine {
namespace {

/// Segments that are looked at for a victim. With so many, the best of a sample has nearly as few
/// live bytes as the best of all.
constexpr std::uint32_t sample_segments = 256;

void raise(std::atomic<std::uint32_t>& value, std::uint32_t to) noexcept {
  std::uint32_t now = value.load(std::memory_order_relaxed);
  while (now < to && !value.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

Segments::Segments(Pool& pool, std::span<Word> directory, std::uint64_t segment_bytes)
    : pool_(pool),
      directory_(directory),
      segment_bytes_(segment_bytes),
      info_(std::make_unique<Info[]>(directory.size())) {}

bool Segments::renew(Open& open, Reservation& block) {
  std::uint32_t number = none;
  {
    const pm::LockGuard alone(lock_);
    if (!free_.empty()) {
      number = free_.back();
      free_.pop_back();
    } else if (most_.load(std::memory_order_relaxed) < directory_.size()) {
      number = most_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (number == none) return false;
  if (!block) block = pool_.heap().reserve(segment_bytes_);
  if (!block) {
    const pm::LockGuard alone(lock_);
    free_.push_back(number);
    return false;
  }
  seal(open);
  open = {.number = number, .offset = block.offset, .used = 0};
  pool_.heap().publish({&block, 1}, &directory_[number], block.offset);
  block = {};
  info_[number].live.store(0, std::memory_order_relaxed);
  info_[number].state.store(State::open, std::memory_order_release);
  count_.fetch_add(1, std::memory_order_relaxed);
  open_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Segments::seal(Open& open) noexcept {
  if (open.number == none) return;
  Info& info = info_[open.number];
  info.used.store(static_cast<std::uint32_t>(open.used), std::memory_order_relaxed);
  info.state.store(State::sealed, std::memory_order_release);
  open_.fetch_sub(1, std::memory_order_relaxed);
  open = {};
}

auto Segments::choose_victim(std::uint64_t most_live) noexcept -> std::optional<Victim> {
  const std::uint32_t numbers = most_.load(std::memory_order_relaxed);
  std::uint32_t best = none;
  std::uint64_t best_live = most_live + 1;
  for (std::uint32_t seen = 0, looked = 0; seen < numbers && looked < sample_segments; ++seen) {
    if (++hand_ >= numbers) hand_ = 0;
    if (info_[hand_].state.load(std::memory_order_acquire) != State::sealed) continue;
    ++looked;
    const std::uint64_t live = live_bytes_in(hand_);
    if (live < best_live) {
      best = hand_;
      best_live = live;
    }
    if (live == 0) break;
  }
  if (best == none) return std::nullopt;
  return Victim{best, offset_of(best), info_[best].used.load(std::memory_order_relaxed)};
}

void Segments::retire(const Victim& victim, Epochs& epochs) {
  pm::store_persist(directory_[victim.number], null_offset);
  epochs.retire(pool_.heap(), victim.offset, segment_bytes_);
  info_[victim.number].state.store(State::free, std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
  const pm::LockGuard alone(lock_);
  free_.push_back(victim.number);
}

void Segments::keep(const Victim& victim) noexcept {
  info_[victim.number].state.store(State::kept, std::memory_order_relaxed);
}

void Segments::free_empty() {
  for (std::uint32_t n = 0; n < most_.load(std::memory_order_relaxed); ++n) {
    if (info_[n].state.load(std::memory_order_relaxed) != State::sealed || live_bytes_in(n) != 0)
      continue;
    const std::uint64_t offset = offset_of(n);
    pm::store_persist(directory_[n], null_offset);
    pool_.heap().free(offset, segment_bytes_);
    info_[n].state.store(State::free, std::memory_order_relaxed);
    count_.fetch_sub(1, std::memory_order_relaxed);
    free_.push_back(n);
  }
}

bool Segments::holds(std::uint32_t number, std::uint64_t offset,
                     std::uint64_t bytes) const noexcept {
  const std::uint64_t begin = offset_of(number);
  return begin != null_offset && offset >= begin && bytes <= segment_bytes_ &&
         offset - begin <= segment_bytes_ - bytes;
}

void Segments::note_record(std::uint32_t number, std::uint64_t end, std::uint64_t live) noexcept {
  Info& info = info_[number];
  raise(info.used, static_cast<std::uint32_t>(end - offset_of(number)));
  info.state.store(State::sealed, std::memory_order_relaxed);
  if (live != 0) add_live(number, live);
}

Result<void> Segments::recover() {
  std::uint32_t most = 0;
  for (std::uint32_t n = 0; n < directory_.size(); ++n) {
    const std::uint64_t offset = offset_of(n);
    if (info_[n].state.load(std::memory_order_relaxed) != State::sealed) {
      if (offset != null_offset) {
        directory_[n].store(null_offset, std::memory_order_relaxed);
        pm::flush(&directory_[n], sizeof directory_[n]);
      }
      continue;
    }
    if (!pool_.contains(offset, segment_bytes_) || !pool_.heap().mark(offset, segment_bytes_))
      return Error{ErrorCode::corrupt,
                   "segment " + std::to_string(n) + " is no block of the heap (offset " +
                       std::to_string(offset) + ")",
                   pool_.path(), "restore the pool from a copy"};
    count_.fetch_add(1, std::memory_order_relaxed);
    most = n + 1;
  }
  pm::fence();
  most_.store(most, std::memory_order_relaxed);
  for (std::uint32_t n = most; n-- > 0;)
    if (info_[n].state.load(std::memory_order_relaxed) == State::free) free_.push_back(n);
  return {};
}

}  // namespace perdure::engine
