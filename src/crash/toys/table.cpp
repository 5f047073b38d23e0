// A table of 64 records behind a commit bitmap, with a redo log for updates where the defect is in
// one.
//
//   byte 0        64          128              192
//        | commit | allocated | log of updates | record[64] of 128
//   record: 48 bytes unused, then key, value, check, copy: key and value in one line, the others in
//   the next.
//
// T1  record i exists <=> bit i of `commit` is set; then its check matches its key.
// T2  a live record's key and check are never rewritten.
// T3  at rest, `allocated` has the bits of `commit`.
// T4  `lock` means nothing after a restart.
// T5  where the defect is in recovery, a live record's copy is its value: the log says what both
// are.
#include <bit>
#include <cstring>

#include "core/rng.h"
#include "crash/toys/toy.h"

namespace perdure::crash {
namespace {

struct Entry {
  std::array<std::uint64_t, 6> unused;
  Word key;
  Word value;
  Word check;
  Word copy;  ///< of the value, where the defect is in recovery
  std::array<std::uint64_t, 6> unused_end;
};
static_assert(sizeof(Entry) == 128);

struct Table {
  static constexpr unsigned records = 64;
  alignas(64) Word commit;
  pm::VersionLock lock;
  alignas(64) Word allocated;
  Word second;  ///< of two tokens
  struct Pair {
    std::uint64_t first;
    std::uint64_t second;
  };
  alignas(16) Pair pair;
  struct alignas(64) Log {
    Word valid;
    Word slot;
    Word value;  ///< the new one, or what is added
  } log;
  Entry record[records];
};

constexpr unsigned nowhere = Table::records;

class TableToy final : public Toy {
 public:
  TableToy(Table& table, Defect defect, bool repaired) : Toy(defect, repaired), table_(table) {}

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    const Hold hold(*this);
    return find(key) == nowhere ? add(key, value, 0) : Outcome::exists;
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    const Hold hold(*this);
    const unsigned slot = find(key);
    return slot == nowhere ? add(key, value, 0) : change(slot, key, value);
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    const Hold hold(*this);
    const unsigned slot = find(key);
    return slot == nowhere ? Outcome::not_found : change(slot, key, value);
  }
  Outcome remove(std::uint64_t key) override {
    const Hold hold(*this);
    const unsigned slot = find(key);
    if (slot == nowhere) return Outcome::not_found;
    commit(table_.commit.load(relaxed) & ~bit(slot));
    ++free_slots_;
    return Outcome::ok;
  }
  // Batches share the last flush and fence: a change is visible before it is durable, so the lock
  // is held until all are.
  void insert_batch(std::span<const std::uint64_t> keys, std::span<const std::uint64_t> values,
                    std::span<Outcome> outcomes) override {
    if (!is(Defect::batch_end_unflushed)) return Toy::insert_batch(keys, values, outcomes);
    const Hold hold(*this);
    in_batch_ = true;
    for (std::size_t i = 0; i < keys.size(); ++i)
      outcomes[i] = find(keys[i]) == nowhere ? add(keys[i], values[i], 0) : Outcome::exists;
    in_batch_ = false;
    if (!has(Defect::batch_end_unflushed)) pm::persist(&table_.commit, sizeof table_.commit);
  }
  void upsert_batch(std::span<const std::uint64_t> keys, std::span<const std::uint64_t> values,
                    std::span<Outcome> outcomes) override {
    if (has(Defect::batch_backwards)) {
      for (std::size_t i = keys.size(); i-- > 0;) outcomes[i] = upsert(keys[i], values[i]);
      return;
    }
    Toy::upsert_batch(keys, values, outcomes);
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    if (has(Defect::read_of_unflushed)) {
      const unsigned slot = find(key);
      if (slot == nowhere) return Outcome::not_found;
      value = table_.record[slot].value.load(std::memory_order_acquire);
      return Outcome::ok;
    }
    const Hold hold(*this);
    const unsigned slot = find(key);
    if (slot == nowhere) return Outcome::not_found;
    value = table_.record[slot].value.load(relaxed);
    return Outcome::ok;
  }
  [[nodiscard]] std::uint64_t size() const override {
    return static_cast<std::uint64_t>(std::popcount(table_.commit.load(relaxed)));
  }
  [[nodiscard]] std::uint64_t most_records() const override { return Table::records; }
  [[nodiscard]] Result<void> check_invariants() const override {
    for (unsigned slot = 0; slot < Table::records; ++slot)
      if ((table_.commit.load(relaxed) & bit(slot)) != 0 &&
          table_.record[slot].check.load(relaxed) != mix64(table_.record[slot].key.load(relaxed)))
        return damaged("T1: a record does not match its check");
    for (std::uint64_t left = table_.commit.load(relaxed); has_copies() && left != 0;
         left &= left - 1) {
      const Entry& record = table_.record[std::countr_zero(left)];
      if (record.value.load(relaxed) != record.copy.load(relaxed))
        return damaged("T5: a record's copy is not its value");
    }
    if (is(Defect::leak_in_allocation) &&
        table_.allocated.load(relaxed) != table_.commit.load(relaxed))
      return damaged("T3: a record is allocated and not reachable: it leaks");
    return {};
  }

  void format() {
    table_.commit.store(0, relaxed);
    table_.allocated.store(0, relaxed);
    table_.second.store(0, relaxed);
    table_.pair = {0, 0};
    table_.log.valid.store(0, relaxed);
    table_.lock.reset();
    pm::persist(&table_, offsetof(Table, record));
    free_slots_ = Table::records;
  }

  [[nodiscard]] Result<void> recover() {
    if (!has(Defect::lock_survives)) table_.lock.reset();  // T4
    if (is(Defect::two_tokens) && has(Defect::two_tokens) &&
        table_.second.load(relaxed) != table_.commit.load(relaxed))
      return damaged("the two tokens disagree");
    if (has(Defect::torn_pair) && table_.pair.first != table_.pair.second)
      return damaged("the pair is torn");
    if (table_.log.valid.load(relaxed) == 1) {
      if (has(Defect::recovery_clears_first)) clear_log();
      apply_log(!has(Defect::recovery_unflushed));
      clear_log();
    }
    if (is(Defect::leak_in_allocation) && !has(Defect::leak_in_allocation))
      pm::store_persist(table_.allocated, table_.commit.load(relaxed));  // T3
    if (!has(Defect::slots_not_counted)) free_slots_ = Table::records - size();
    return check_invariants();
  }

 private:
  /// The lock is in DRAM, but for the toy whose lock survives.
  class Hold {
   public:
    explicit Hold(TableToy& toy) : toy_(toy), held_(toy_.take_lock()) {}
    ~Hold() { toy_.drop_lock(held_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    TableToy& toy_;
    bool held_;
  };
  [[nodiscard]] pm::VersionLock& lock() { return is(Defect::lock_survives) ? table_.lock : lock_; }
  /// False: the defect, which loses patience.
  [[nodiscard]] bool take_lock() {
    constexpr unsigned most_tries = 16;
    for (unsigned tries = 0; is(Defect::bounded_retries); ++tries) {
      if (lock().try_lock()) return true;
      if (tries == most_tries && has(Defect::bounded_retries)) return false;
      pm::pause();
    }
    while (!lock().lock()) {
    }
    return true;
  }
  [[gnu::noinline]] void drop_lock(bool held) {  // findings name it
    if (held) lock().unlock();
    // The defect: the next thread may read and return what is not durable yet.
    if (has(Defect::unlock_before_flush)) pm::persist(&table_.commit, sizeof table_.commit);
  }

  [[nodiscard]] unsigned find(std::uint64_t key) const {
    for (std::uint64_t left = table_.commit.load(std::memory_order_acquire); left != 0;
         left &= left - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(left));
      if (table_.record[slot].key.load(relaxed) == key) return slot;
    }
    return nowhere;
  }

  /// One store makes the change visible and durable.
  void commit(std::uint64_t bits) {
    table_.commit.store(bits, std::memory_order_release);
    if (has(Defect::two_tokens)) {
      table_.second.store(bits, relaxed);
      pm::flush(&table_.second, sizeof table_.second);
    }
    if (has(Defect::torn_pair)) {
      const Table::Pair pair{bits, bits};
      std::memcpy(&table_.pair, &pair, sizeof pair);
      pm::flush(&table_.pair, sizeof pair);
    }
    if (has(Defect::unlock_before_flush)) return;  // see drop_lock
    if (is(Defect::batch_end_unflushed) && in_batch_) return;
    pm::persist(&table_.commit, sizeof table_.commit);
    if (is(Defect::leak_in_allocation)) pm::store_persist(table_.allocated, bits);
  }

  Outcome add(std::uint64_t key, std::uint64_t value, std::uint64_t gone) {
    const std::uint64_t live = table_.commit.load(relaxed);
    const bool once = has(Defect::slots_used_once);
    const std::uint64_t taken = once ? live | table_.allocated.load(relaxed) : live;
    const auto slot = static_cast<unsigned>(std::countr_one(taken));
    if (slot == nowhere || free_slots_ == 0) return Outcome::out_of_space;
    if (once) pm::store_persist(table_.allocated, taken | bit(slot));
    if (gone == 0) --free_slots_;
    if (is(Defect::leak_in_allocation)) pm::store_persist(table_.allocated, live | bit(slot));
    if (has(Defect::valid_before_payload)) commit((live | bit(slot)) & ~gone);
    Entry& record = table_.record[slot];
    if (is(Defect::elided_publish) &&
        publish_elided(record, key, value, (live | bit(slot)) & ~gone))
      return Outcome::ok;
    fill(record, key, value);
    flush_payload(record);
    if (!has(Defect::missing_fence)) pm::fence();
    if (has(Defect::non_atomic_move) && gone != 0) commit(live & ~gone);
    commit((live | bit(slot)) & ~gone);
    return Outcome::ok;
  }

  [[nodiscard]] bool has_copies() const {
    return is(Defect::recovery_unflushed) || is(Defect::recovery_clears_first);
  }

  void fill(Entry& record, std::uint64_t key, std::uint64_t value) const {
    record.key.store(key, relaxed);
    record.value.store(value, relaxed);
    record.check.store(mix64(key), relaxed);
    if (has_copies()) record.copy.store(value, relaxed);
  }

  /// The defect: readers see record and bit together, but they lie in different lines.
  [[nodiscard]] bool publish_elided(Entry& record, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t bits) {
    constexpr unsigned attempts = 3;
    const bool together = has(Defect::elided_publish);
    if (!together) {
      fill(record, key, value);
      flush_payload(record);
      pm::fence();
    }
    const bool elided = pm::elide(attempts, [&] {
      if (together) fill(record, key, value);
      table_.commit.store(bits, relaxed);
    });
    if (!elided) return false;
    if (together) flush_payload(record);
    pm::persist(&table_.commit, sizeof table_.commit);
    return true;
  }

  void flush_payload(const Entry& record) {
    constexpr std::size_t bytes = 3 * sizeof(Word);
    if (has(Defect::missing_flush)) return;
    if (has(Defect::wrong_address)) return pm::flush(&table_.commit, bytes);
    if (has(Defect::flush_of_a_temporary)) {
      const std::array<std::uint64_t, 3> copy{record.key.load(relaxed), record.value.load(relaxed),
                                              record.check.load(relaxed)};
      return pm::flush(copy.data(), bytes);
    }
    if (has(Defect::last_line_missed)) {
      const auto* const begin = reinterpret_cast<const std::byte*>(&record.key);
      for (std::size_t done = 0; done < bytes; done += pm::cache_line_bytes)
        pm::flush(begin + done, 1);
      return;
    }
    pm::flush(&record.key, bytes);
  }

  Outcome change(unsigned slot, std::uint64_t key, std::uint64_t value) {
    const bool logged =
        is(Defect::log_reset_unflushed) || is(Defect::replay_not_idempotent) || has_copies();
    if (!logged) return add(key, value, bit(slot));
    table_.log.slot.store(slot, relaxed);
    table_.log.value.store(has(Defect::replay_not_idempotent)
                               ? value - table_.record[slot].value.load(relaxed)
                               : value,
                           relaxed);
    pm::persist(&table_.log, sizeof table_.log);
    pm::store_persist(table_.log.valid, 1);
    apply_log(true);
    table_.log.valid.store(0, relaxed);
    if (!has(Defect::log_reset_unflushed)) pm::persist(&table_.log, sizeof table_.log);
    return Outcome::ok;
  }

  void clear_log() {
    table_.log.valid.store(0, relaxed);
    pm::persist(&table_.log, sizeof table_.log);
  }

  void apply_log(bool flushes) {
    const auto slot = static_cast<unsigned>(table_.log.slot.load(relaxed)) % Table::records;
    Entry& record = table_.record[slot];
    const std::uint64_t value = table_.log.value.load(relaxed);
    record.value.store(
        has(Defect::replay_not_idempotent) ? record.value.load(relaxed) + value : value, relaxed);
    if (flushes) pm::persist(&record.value, sizeof record.value);
    if (!has_copies()) return;
    record.copy.store(value, relaxed);
    pm::persist(&record.copy, sizeof record.copy);
  }

  Table& table_;
  pm::VersionLock lock_;
  bool in_batch_ = false;         ///< the changes become durable at its end
  std::uint64_t free_slots_ = 0;  ///< so that a full table is not searched
};

}  // namespace

std::vector<MediaStruct> table_media(const IndexOptions&) {
  constexpr std::uint32_t records = offsetof(Table, record);
  constexpr auto record = static_cast<std::uint32_t>(sizeof(Entry));
  return {{"table",
           sizeof(Table),
           {{"commit", offsetof(Table, commit), 8},
            {"lock", offsetof(Table, lock), 8},
            {"allocated", offsetof(Table, allocated), 8},
            {"second", offsetof(Table, second), 8},
            {"pair.first", offsetof(Table, pair) + offsetof(Table::Pair, first), 8},
            {"pair.second", offsetof(Table, pair) + offsetof(Table::Pair, second), 8},
            {"log.valid", offsetof(Table, log) + offsetof(Table::Log, valid), 8},
            {"log.slot", offsetof(Table, log) + offsetof(Table::Log, slot), 8},
            {"log.value", offsetof(Table, log) + offsetof(Table::Log, value), 8},
            {"record[].key", records + offsetof(Entry, key), 8, Table::records, record},
            {"record[].value", records + offsetof(Entry, value), 8, Table::records, record},
            {"record[].check", records + offsetof(Entry, check), 8, Table::records, record},
            {"record[].copy", records + offsetof(Entry, copy), 8, Table::records, record}}}};
}

Result<std::unique_ptr<IntegerIndex>> open_table(const IndexPlace& place, Defect defect,
                                                 bool repaired, bool create) {
  Pool& pool = *place.pool;
  if (create) {
    Reservation block = pool.heap().reserve(sizeof(Table));
    if (!block) return Error{ErrorCode::out_of_space, "no room for a toy", "", ""};
    auto toy = std::make_unique<TableToy>(*pool.at<Table>(block.offset), defect, repaired);
    toy->format();
    if (auto done = pool.add_root(place.root_name, block); !done) return done.error();
    return std::unique_ptr<IntegerIndex>(std::move(toy));
  }
  return recovered(place, [&](std::uint64_t at) {
    return std::make_unique<TableToy>(*pool.at<Table>(at), defect, repaired);
  });
}

}  // namespace perdure::crash
