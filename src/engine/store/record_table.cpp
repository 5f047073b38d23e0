#include "engine/store/record_table.h"

#include <algorithm>
#include <cstring>

namespace perdure::engine {

RecordTable::RecordTable(Pool& pool, std::span<Word> directory)
    : pool_(pool),
      directory_(directory),
      chunk_(directory.size()),
      own_(std::make_unique<std::array<Own, pm::max_threads>>()) {}

std::uint64_t RecordTable::take() {
  Own& own = (*own_)[pm::thread_slot()];
  if (own.count == 0) {
    const pm::LockGuard alone(lock_);
    while (own.count < cached_ids) {
      std::uint64_t& id = own.id[own.count];
      if (!free_.empty()) {
        id = free_.back();
        free_.pop_back();
      } else if (used() < capacity() || grow()) {
        id = used();
        used_.store(id + 1, std::memory_order_relaxed);
      } else {
        break;
      }
      ++own.count;
    }
    if (own.count == 0) return no_id;
    // The lowest first, so that few lines of the table are in use.
    std::ranges::reverse(std::span(own.id).first(own.count));
  }
  return own.id[--own.count];
}

void RecordTable::give_back(std::uint64_t id) {
  Own& own = (*own_)[pm::thread_slot()];
  if (own.count < cached_ids) {
    own.id[own.count++] = id;
    return;
  }
  const pm::LockGuard alone(lock_);
  free_.push_back(id);
}

bool RecordTable::grow() {
  const std::uint64_t number = capacity() == 0 ? 0 : chunk_of(capacity());
  if (number >= directory_.size()) return false;
  const std::uint64_t bytes = words_of(number) * sizeof(Word);
  Reservation block = pool_.heap().reserve(bytes);
  if (!block) return false;
  Word* const words = pool_.at<Word>(block.offset);
  std::memset(static_cast<void*>(words), 0, bytes);
  pm::persist(words, bytes);
  pool_.heap().publish({&block, 1}, &directory_[number], block.offset);
  chunk_[number].store(words, std::memory_order_release);
  capacity_.store(first_of(number) + words_of(number), std::memory_order_release);
  return true;
}

Result<void> RecordTable::recover() {
  for (std::uint64_t number = 0; number < directory_.size(); ++number) {
    const std::uint64_t offset = directory_[number].load(std::memory_order_relaxed);
    if (offset == null_offset) break;
    const std::uint64_t bytes = words_of(number) * sizeof(Word);
    if (!pool_.contains(offset, bytes) || !pool_.heap().mark(offset, bytes))
      return Error{ErrorCode::corrupt,
                   "a chunk of the record table is no block of the heap (offset " +
                       std::to_string(offset) + ")",
                   pool_.path(), "restore the pool from a copy"};
    chunk_[number].store(pool_.at<Word>(offset), std::memory_order_relaxed);
    capacity_.store(first_of(number) + words_of(number), std::memory_order_relaxed);
  }
  return {};
}

void RecordTable::recover_ids(std::uint64_t used) {
  used_.store(used, std::memory_order_relaxed);
  // From the highest down, because the last one in is taken first.
  for (std::uint64_t id = used; id-- > 0;)
    if (!is_present(word(id).load(std::memory_order_relaxed))) free_.push_back(id);
}

}  // namespace perdure::engine
