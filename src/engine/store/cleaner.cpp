#include "engine/store/cleaner.h"

#include <cstring>

namespace perdure::engine {

void Cleaner::keep_small() {
  const std::uint64_t segment = segments_.segment_bytes();
  // And two more, or a small store would clean all the time.
  const auto is_large = [&] {
    const std::uint64_t live = segments_.live_bytes();
    return segments_.total_bytes() > live + live / 4 + (segments_.open() + 2) * segment;
  };
  if (!is_large()) return;
  pm::HeldLock<> held;
  if (!held.take(lock_)) return;
  while (is_large() && clean_one(segment - segment / 8)) {
  }
}

bool Cleaner::make_room() {
  const pm::LockGuard alone(lock_);
  std::uint64_t frees = epochs_.frees();
  if (!clean_one(segments_.segment_bytes() - segments_.segment_bytes() / 32)) return false;
  // The first block is for the next copies (C3): whoever waits for room would leave none.
  static_cast<void>(epochs_.make_room(frees));
  reserve();
  return true;
}

void Cleaner::let_go() {
  segments_.seal(open_);
  if (reserved_) pool_.heap().cancel(reserved_);
  reserved_ = {};
}

bool Cleaner::has_reserve() {
  pm::HeldLock<> held;
  if (!held.take(lock_)) return true;  // who cleans sees to it
  reserve();
  return static_cast<bool>(reserved_);
}

void Cleaner::reserve() {
  if (!reserved_) reserved_ = pool_.heap().reserve(segments_.segment_bytes());
}

bool Cleaner::clean_one(std::uint64_t most_live) {
  reserve();
  const auto victim = segments_.choose_victim(most_live);
  if (!victim) return false;
  std::vector<Move> moves;
  const bool all = copy_out(*victim, moves);
  pm::fence();  // C1
  for (const Move& move : moves) redirect(move);
  pm::fence();  // C2
  if (!all) return false;
  if (segments_.live_bytes_in(victim->number) != 0) {
    segments_.keep(*victim);  // damaged: not all of its records were met
    return false;
  }
  {
    const Epochs::Guard pin(epochs_);
    segments_.retire(*victim, epochs_);
  }
  return true;
}

bool Cleaner::copy_out(const Segments::Victim& victim, std::vector<Move>& moves) {
  for (std::uint64_t at = 0; at < victim.used;) {
    const std::uint64_t offset = victim.offset + at;
    const RecordHeader* header = reader_.at(offset);
    if (header == nullptr || header->segment != victim.number || header->id >= table_.capacity() ||
        record_bytes(*header) > victim.used - at)
      return true;  // damaged: what is present beyond keeps the segment
    Word& word = table_.word(header->id);
    pm::flush(&word, sizeof word);  // C2
    if (word.load(std::memory_order_acquire) == offset && !copy(*header, offset, moves))
      return false;
    at += record_bytes(*header);
  }
  return true;
}

bool Cleaner::copy(const RecordHeader& header, std::uint64_t from, std::vector<Move>& moves) {
  const std::uint64_t bytes = record_bytes(header);
  if (!segments_.fits(open_, bytes)) {
    if (!segments_.renew(open_) && !(reserved_ && segments_.renew(open_, reserved_))) return false;
  }
  const std::uint64_t to = open_.offset + open_.used;
  open_.used += bytes;
  std::byte* const copy = pool_.base() + to;
  std::memcpy(copy, &header, bytes);
  reinterpret_cast<RecordHeader*>(copy)->segment = open_.number;
  pm::flush(copy, bytes);
  moves.push_back({header.id, from, to, open_.number});
  moved_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void Cleaner::redirect(const Move& move) {
  const RecordHeader& record = *reader_.at(move.from);
  const KeyLocks::Held held(locks_, reader_.key(record));
  Word& word = table_.word(move.id);
  if (word.load(std::memory_order_relaxed) != move.from) return;
  const std::uint64_t bytes = record_bytes(record);
  segments_.drop_live(record.segment, bytes);
  segments_.add_live(move.segment, bytes);
  word.store(move.to, std::memory_order_release);
  pm::flush(&word, sizeof word);
}

}  // namespace perdure::engine
