// DocumentStore: documents under keys, with any number of further index entries for each. It knows
// nothing of what a document holds: BSON is above it (engine/document/).
//
// Parts: records in segments (record.h, segments.h); a table that leads from a record's id to its
// place (record_table.h); intents, two lines for each thread (intents.h); and one ordered index of
// byte strings, any registered one, that leads from keys to ids.
//
// The index holds, for a record with this id,
//   key            -> id   its primary entry
//   entry, id (BE) -> ""   for each of the entries that the EntryRule gives
// Whoever uses the store sees to it that no entry is a prefix-mate of a key: the first bytes
// differ.
//
// A write of one document:
//   1 the record into the thread's segment and the intent line, flushed; one fence. It is
//   committed. 2 new entries into the index 3 the table's word to the new record: only now it is
//   visible 4 entries of the old document out of the index
// Step 3's line is flushed with the thread's next write, which the intent outlives: a thread has
// two.
//
// S1  a record is present <=> the table's word of its id leads to it.
// S2  a word changes under the lock of the record's key (KeyLocks), and by the cleaner, too.
// S3  what is visible is committed: a cut after step 3 loses nothing, because recovery redoes it.
// S4  recovery redoes an intent only while the table's word is older than its version, or removes
//     what is left of the version before. So an intent that others have overtaken does nothing.
// S5  a segment, and extents, are freed after a grace period; a thread is pinned as long as it
//     reads or writes a record.
// S6  when no operation runs, the index holds exactly the entries of the records that are present.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/store/cleaner.h"
#include "engine/store/digest.h"
#include "engine/store/entries.h"
#include "engine/store/intents.h"
#include "engine/store/key_locks.h"
#include "engine/store/observer.h"
#include "engine/store/record_reader.h"
#include "engine/store/record_table.h"
#include "engine/store/segments.h"
#include "engine/store/store_types.h"
#include "index/index.h"
#include "index/registry.h"
#include "index/writable_index.h"
#include "pool/epoch.h"
#include "pool/parts_heap.h"
#include "pool/pool.h"

namespace perdure::engine {

class DocumentStore {
 public:
  /// `rule` outlives the store. Errors: exists, out_of_space, usage, unsupported.
  [[nodiscard]] static Result<std::unique_ptr<DocumentStore>> create(Pool& pool,
                                                                     const StoreOptions& options,
                                                                     EntryRule& rule);
  /// From the pool alone; the index is the one that it was created with. The rule is asked once all
  /// documents can be looked up but those whose writes were cut off, which are told to it in the
  /// order of their keys. Errors: not_found, foreign, newer, corrupt, out_of_space.
  [[nodiscard]] static Result<std::unique_ptr<DocumentStore>> recover(Pool& pool,
                                                                      const StoreOptions& options,
                                                                      EntryRule& rule);
  ~DocumentStore();
  DocumentStore(const DocumentStore&) = delete;
  DocumentStore& operator=(const DocumentStore&) = delete;

  /// What `modify` does with the document of a key.
  class Change {
   public:
    virtual ~Change() = default;
    /// `document`: what is there, null where nothing is. True: `out` is to be there instead, or
    /// nothing, if `remove` was set. False: leave it. Called again where others intervened.
    virtual bool operator()(const std::string* document, std::string& out, bool& remove) = 0;
  };

  /// Durable when it returns ok. ok | exists | not_found | duplicate | out_of_space | too_long.
  /// Cost: the lines of the record, one intent line, one line of the table; one fence, and those of
  /// the index.
  Status put(std::string_view key, std::string_view document, Put kind);
  /// ok | not_found | corrupt (it is gone then, too, but for its entries).
  Status remove(std::string_view key);
  /// Reads, changes and writes one document under the lock of its key. Besides the above:
  /// unchanged.
  Status modify(std::string_view key, Change& change);
  /// Copies the document. ok | not_found | corrupt. Cost: one lookup in the index, the record.
  Status lookup(std::string_view key, std::string& document);

  /// One document of a scan.
  struct Found {
    std::string key;
    std::string document;
  };
  struct Entry {
    std::string entry;  ///< as the rule gave it, or a key
    std::uint64_t id = 0;
  };
  /// Appends the entries and keys in [from, to) and the ids of their documents, in the index's
  /// order, at most `count`. `next` is where to go on, or empty at the end. An entry's document may
  /// have changed since: whoever asks checks.
  void scan_entries(std::string_view from, std::string_view to, std::size_t count,
                    std::vector<Entry>& out, std::string& next);
  /// The document with this id. ok | not_found | corrupt.
  Status read(std::uint64_t id, std::string& key, std::string& document);
  /// Appends records with keys in [from, to), in order, at most `count`; `next` as above. What is
  /// corrupt is left out, and counted.
  void scan(std::string_view from, std::string_view to, std::size_t count, std::vector<Found>& out,
            std::string& next, std::uint64_t& corrupt);

  /// Puts entries into the index for a document that was written before the rule gave them; for
  /// whoever makes a new index over old documents. ok | not_found | duplicate | out_of_space.
  Status add_entries(std::string_view key);
  /// Takes out entries that the rule gives no more, all of [from, to).
  void remove_entries(std::string_view from, std::string_view to);

  [[nodiscard]] std::uint64_t size() const noexcept;
  /// As the registry has it.
  [[nodiscard]] std::string_view index_name() const noexcept;
  [[nodiscard]] StoreUsage usage() const;
  /// Reads everything: records against their checksums, the index against the records (S6). At most
  /// `most` findings; no other operation may run.
  [[nodiscard]] std::vector<Finding> check(std::size_t most) const;
  /// Of the index and of the store itself. No other operation may run. Errors: corrupt.
  [[nodiscard]] Result<void> check_invariants() const;
  /// Before the pool is closed: lets go of what is retired and tells the pool what is there. No
  /// other operation may run.
  void settle();
  /// From now on `observer` is told of every operation; null: nobody. It outlives the store, or the
  /// next call; no other operation may run. Without one each operation costs one branch more.
  void observe(StoreObserver* observer) noexcept { observer_ = observer; }
  /// Marks that the store is being filled: what a power cut leaves is empty again. Done: `false`.
  void set_filling(bool filling);

 private:
  friend Result<Digest> digest_of(const DocumentStore& store);
  struct Head;
  class Recovery;
  /// What is under a key, seen under its lock.
  struct Present {
    std::uint64_t id = RecordTable::no_id;  ///< no_id: nothing
    const RecordHeader* record = nullptr;   ///< null: nothing
    std::string document{};                 ///< if it was asked for
    bool has_document = false;
  };
  /// A record that is written and not announced yet.
  struct Draft {
    std::uint64_t offset = 0;
    std::uint32_t segment = Segments::none;
    std::uint64_t bytes = 0;
    std::vector<Reservation> block{};  ///< of a long document
  };
  /// What one thread slot has to itself.
  struct alignas(64) Slot {
    Segments::Open open{};
    Word* pending = nullptr;  ///< a word of the table that was changed and not flushed
    std::atomic<std::int64_t> documents{0};
    unsigned turn = 0;            ///< which of its intents comes next
    bool wants_cleaning = false;  ///< it has taken a segment since it last cleaned
  };
  using EntryRefs = std::span<const EntryText* const>;

  DocumentStore(Pool& pool, const StoreOptions& options, EntryRule& rule, Head& head);

  [[nodiscard]] Slot& slot() noexcept { return (*slots_)[pm::thread_slot()]; }
  [[nodiscard]] Result<void> create_index(std::string_view name);
  [[nodiscard]] bool find_id(std::string_view key, std::uint64_t& id) const;
  [[nodiscard]] Status copy_out(std::uint64_t id, std::string_view key,
                                std::string& document) const;

  // Writing (write.cpp).
  template <class Attempt>
  [[nodiscard]] Status with_cleaning(Attempt&& attempt);
  [[nodiscard]] bool fits(std::string_view key) const noexcept;
  [[nodiscard]] Present find(std::string_view key, bool with_document) const;
  [[nodiscard]] Status write(const Present& before, KeyLocks::Held& held, std::string_view key,
                             std::string_view document, Action action);
  /// The write, once it is known which entries come and go.
  [[nodiscard]] Status commit(const Present& before, std::string_view key,
                              std::string_view document, EntryRefs added, EntryRefs gone);
  [[nodiscard]] Status erase(const Present& before, KeyLocks::Held& held, std::string_view key,
                             Action action);
  [[nodiscard]] bool draft(std::string_view key, std::string_view document, Draft& draft);
  void discard(const Draft& draft) noexcept;
  /// Returns its checksum.
  std::uint32_t fill(const Draft& draft, RecordHeader header, std::string_view key,
                     std::string_view document) const;
  /// Makes intent and record durable: the write is committed.
  Intent& announce(Operation operation, const Intent::Terms& terms);
  /// Makes the write visible.
  void swing(std::uint64_t id, std::uint64_t to, const RecordHeader* before);
  void retire_extents(const RecordHeader& record);
  void entries_of(std::string_view key, std::string_view document, Entries& out) const;

  void clear_intents();

  void entries_in(std::string_view from, std::string_view to, std::size_t count,
                  std::vector<Entry>& out, std::string& next) const;
  void documents_in(std::string_view from, std::string_view to, std::size_t count,
                    std::vector<Found>& out, std::string& next, std::uint64_t& corrupt) const;
  [[nodiscard]] Status find_document(std::string_view key, std::string& document) const;
  [[nodiscard]] Status read_id(std::uint64_t id, std::string& key, std::string& document) const;

  // With an observer (observed.cpp).
  Status observed_lookup(std::string_view key, std::string& document);
  Status observed_read(std::uint64_t id, std::string& key, std::string& document);
  /// Tells the observer, if there is one. Returns the status.
  Status tell(const Observation& observation) const {
    if (observer_ != nullptr) [[unlikely]]
      tell_observer(observation);
    return observation.status;
  }
  void tell_observer(Observation observation) const;
  /// The end of a write that found no room however often it was tried.
  Status told_if_full(Action action, Status status, std::string_view key) const {
    return status == Status::out_of_space ? tell({.action = action, .status = status, .key = key})
                                          : status;
  }
  /// V1. False: another thread has one of the locks.
  [[nodiscard]] static bool hold_unique_gone(KeyLocks::Held& held, EntryRefs gone);

  // Entries in the index.
  [[nodiscard]] bool is_taken(const EntryText& entry, std::uint64_t id) const;
  [[nodiscard]] bool is_in_index(const EntryText& entry, std::uint64_t id) const;
  [[nodiscard]] Status hold_unique(KeyLocks::Held& held, EntryRefs entries, std::uint64_t id);
  /// False: no room, and none of them is there.
  [[nodiscard]] bool add_to_index(EntryRefs entries, std::uint64_t id);
  void take_from_index(EntryRefs entries, std::uint64_t id);
  [[nodiscard]] bool add_key(std::string_view key, std::uint64_t id);
  void take_key(std::string_view key, std::uint64_t id);

  /// Blocks that are reserved while one lives belong to records, or to the index: to parts of
  /// their own, in a pool that has them.
  [[nodiscard]] InPart for_records() const noexcept { return {parts_, 0}; }
  [[nodiscard]] InPart for_index() const noexcept { return {parts_, 1}; }

  Pool& pool_;
  PartsHeap* const parts_;  ///< null: the pool has but one
  EntryRule& rule_;
  const StoreOptions options_;
  Head& head_;
  const RecordReader reader_;
  RecordTable table_;
  Segments segments_;
  std::unique_ptr<BytesIndex> index_;
  mutable Epochs epochs_;
  KeyLocks locks_;
  std::unique_ptr<std::array<Slot, pm::max_threads>> slots_;
  Cleaner cleaner_;
  StoreObserver* observer_ = nullptr;
};

}  // namespace perdure::engine
