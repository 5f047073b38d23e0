#include "index/pactree/smo_log.h"

#include <cstring>

#include "index/common/index_root.h"

namespace perdure::pactree {

Result<std::uint64_t> SmoLog::create(Pool& pool) {
  Reservation block = pool.heap().reserve(bytes);
  if (!block) return no_room_for("the log", pool);
  std::memset(pool.base() + block.offset, 0, bytes);
  pm::persist(pool.base() + block.offset, bytes);
  pool.heap().publish({&block, 1});
  return block.offset;
}

std::uint64_t SmoLog::take(std::uint64_t entry) noexcept {
  if (!taking_.lock()) return none;
  const std::uint64_t ticket = end_.load(std::memory_order_relaxed);
  const bool has_room = ticket - first_.load(std::memory_order_acquire) < entries;
  if (has_room) {
    state_[ticket % entries].store(taken, std::memory_order_relaxed);
    end_.store(ticket + 1, std::memory_order_release);
  }
  taking_.unlock();
  if (!has_room) return none;
  word_[ticket % entries].store(entry, std::memory_order_release);
  pm::flush(&word_[ticket % entries], sizeof(std::uint64_t));
  return ticket;
}

auto SmoLog::found() const -> std::vector<Found> {
  std::array<std::uint64_t, entries> words;
  std::memcpy(words.data(), word_, bytes);
  std::vector<Found> found;
  for (unsigned place = 0; place < entries; ++place)
    if (words[place] != 0) found.push_back({place, words[place]});
  return found;
}

}  // namespace perdure::pactree
