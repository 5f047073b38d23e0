// StoreObserver: told of every operation that a document store has executed, so that it can be
// recorded and replayed elsewhere (engine/trace/).
//
// V1  Operations on one key are told in the order in which they took effect, because each is told
//     under the lock of its key. So are writes that take or leave the same unique entry: under an
//     observer a write holds the locks of both. Reads take the lock of their key, too, which they
//     never do otherwise.
// V2  What a write did to the index is told as it was done: entries that came, and that went. So
//     whoever repeats it needs no EntryRule of the same mind.
// V3  Not told: what was refused for its length (it touched nothing), and reads of an id without a
//     record.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/store/entries.h"
#include "engine/store/store_types.h"

namespace perdure::engine {

enum class Action : std::uint8_t {
  lookup,
  read,  ///< by an id, which an index entry has led to
  scan,
  scan_entries,
  insert,
  update,
  upsert,
  remove,
  modify,
  add_entries,
  remove_entries,
};
inline constexpr std::size_t actions = 11;
[[nodiscard]] const char* name_of(Action action) noexcept;

/// One operation and its outcome. Texts are valid while the observer is told.
struct Observation {
  Action action = Action::lookup;
  Status status = Status::ok;
  std::string_view key{};                     ///< of the document; of ranges: where they begin
  std::string_view to{};                      ///< of ranges: where they end
  std::string_view document{};                ///< that was written or, by a lookup or read, found
  std::span<const EntryText* const> added{};  ///< new entries
  std::span<const EntryText* const> gone{};   ///< entries that only the old document had
  std::uint64_t count = 0;                    ///< of scans: at most so many were asked for
  std::uint64_t found = 0;                    ///< of scans
  bool has_entries = false;                   ///< the rule was asked, so the old document was read
  bool removes = false;                       ///< `modify`: the document was to go
};

/// Called by any thread, under locks: it must not use the store.
class StoreObserver {
 public:
  StoreObserver() = default;
  virtual ~StoreObserver() = default;
  StoreObserver(const StoreObserver&) = delete;
  StoreObserver& operator=(const StoreObserver&) = delete;
  virtual void saw(const Observation& observation) = 0;
};

}  // namespace perdure::engine
