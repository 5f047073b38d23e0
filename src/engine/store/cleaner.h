// Cleaner: moves what is present out of segments that hold little of it, so that their room can be
// had again. Whoever writes cleans, between two operations: there is no thread of its own, and a
// simulated run repeats.
//
// C1  a record is copied, with its id and version, and durable at its new place before the table's
//     word leads there; the word changes under the lock of the key, and only if the record has not
//     been replaced meanwhile.
// C2  before a segment's block is retired, the words of all records in it are durable: those that
//     were replaced, too, because the fence of who did it may be still to come.
// C3  no thread takes a segment before one is reserved for copies, so a full pool can be cleaned.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/store/key_locks.h"
#include "engine/store/record_reader.h"
#include "engine/store/record_table.h"
#include "engine/store/segments.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure::engine {

class Cleaner {
 public:
  Cleaner(Pool& pool, RecordTable& table, Segments& segments, KeyLocks& locks, Epochs& epochs)
      : pool_(pool),
        reader_(pool),
        table_(table),
        segments_(segments),
        locks_(locks),
        epochs_(epochs) {}
  ~Cleaner() { let_go(); }
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  /// Cleans while segments take a quarter more than the records in them, besides those that threads
  /// append to. The caller is not pinned and holds no lock.
  void keep_small();
  /// The heap has no room: cleans a segment whose live records leave anything. False: there is
  /// none.
  bool make_room();
  /// Before a thread takes a segment (C3). False: the heap has none for copies.
  [[nodiscard]] bool has_reserve();
  /// Seals its segment and gives the reserved one back. No other operation runs.
  void let_go();
  [[nodiscard]] std::uint64_t moved_bytes() const noexcept {
    return moved_bytes_.load(std::memory_order_relaxed);
  }

 private:
  struct Move {
    std::uint64_t id;
    std::uint64_t from;
    std::uint64_t to;
    std::uint32_t segment;  ///< of the copy
  };
  /// The caller holds the lock.
  bool clean_one(std::uint64_t most_live);
  /// Copies what is present in the victim. False: no room for all of it.
  [[nodiscard]] bool copy_out(const Segments::Victim& victim, std::vector<Move>& moves);
  [[nodiscard]] bool copy(const RecordHeader& header, std::uint64_t from, std::vector<Move>& moves);
  void redirect(const Move& move);
  void reserve();

  Pool& pool_;
  const RecordReader reader_;
  RecordTable& table_;
  Segments& segments_;
  KeyLocks& locks_;
  Epochs& epochs_;
  pm::VersionLock lock_;  ///< one thread cleans
  Segments::Open open_;
  Reservation reserved_;
  std::atomic<std::uint64_t> moved_bytes_{0};
};

}  // namespace perdure::engine
