// A hash table that is made twice as large when it is full: 64 records at first.
//
// H1  `table` leads to a table that is whole and durable.
// H2  a slot's key and value are durable before its state says that it is live.
#include "core/rng.h"
#include "crash/toys/toy.h"

namespace perdure::crash {
namespace {

struct Slot {
  Word state;  ///< 1: live; 2: was live; else free
  Word key;
  Word value;
  Word unused;
};
static_assert(sizeof(Slot) == 32);
constexpr std::uint64_t live = 1;
constexpr std::uint64_t dead = 2;

struct HashRoot {
  static constexpr std::uint64_t first_slots = 64;
  Word table;
};
/// A line with the number of slots, then these.
struct HashTable {
  alignas(64) Word slots;
};
constexpr std::size_t bytes_of(std::uint64_t slots) {
  return sizeof(HashTable) + slots * sizeof(Slot);
}

class HashToy final : public Toy {
 public:
  HashToy(Pool& pool, HashRoot& root, Defect defect, bool repaired)
      : Toy(defect, repaired), pool_(pool), root_(root) {}

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    return locked([&] { return find(key) != nullptr ? Outcome::exists : add(key, value); });
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    return locked([&] {
      Slot* const slot = find(key);
      return slot != nullptr ? change(*slot, value) : add(key, value);
    });
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    return locked([&] {
      Slot* const slot = find(key);
      return slot != nullptr ? change(*slot, value) : Outcome::not_found;
    });
  }
  Outcome remove(std::uint64_t key) override {
    return locked([&] {
      Slot* const slot = find(key);
      if (slot == nullptr) return Outcome::not_found;
      pm::store_persist(slot->state, dead);
      return Outcome::ok;
    });
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    return locked([&] {
      const Slot* const slot = find(key);
      if (slot == nullptr) return Outcome::not_found;
      value = slot->value.load(relaxed);
      return Outcome::ok;
    });
  }
  [[nodiscard]] std::uint64_t size() const override {
    std::uint64_t records = 0;
    for (std::uint64_t i = 0; i < slots(); ++i)
      records += slot(i).state.load(relaxed) == live ? 1U : 0U;
    return records;
  }
  [[nodiscard]] Result<void> check_invariants() const override { return {}; }

  [[nodiscard]] Result<void> recover() {
    const std::uint64_t at = root_.table.load(relaxed);
    if (!pool_.contains(at, sizeof(HashTable)) || !pool_.contains(at, bytes_of(slots())) ||
        !pool_.heap().mark(at, bytes_of(slots())))
      return damaged("H1: the root leads to no table");
    return {};
  }

  /// Empty, durable and not yet published.
  static void format(Pool& pool, std::uint64_t at, std::uint64_t slots) {
    auto& table = *pool.at<HashTable>(at);
    table.slots.store(slots, relaxed);
    auto* const first = pool.at<Slot>(at + sizeof(HashTable));
    for (std::uint64_t i = 0; i < slots; ++i) first[i].state.store(0, relaxed);
    pm::persist(&table, bytes_of(slots));
  }

 private:
  template <class Work>
  Outcome locked(Work&& work) {
    while (!lock_.lock()) {
    }
    const Outcome outcome = work();
    lock_.unlock();
    return outcome;
  }
  [[nodiscard]] std::uint64_t slots() const {
    return pool_.at<HashTable>(root_.table.load(relaxed))->slots.load(relaxed);
  }
  [[nodiscard]] Slot& slot_in(std::uint64_t table, std::uint64_t i) const {
    return pool_.at<Slot>(table + sizeof(HashTable))[i];
  }
  [[nodiscard]] Slot& slot(std::uint64_t i) const { return slot_in(root_.table.load(relaxed), i); }

  [[nodiscard]] Slot* find(std::uint64_t key) const {
    for (std::uint64_t i = 0; i < slots(); ++i) {
      Slot& at = slot((mix64(key) + i) % slots());
      const std::uint64_t state = at.state.load(relaxed);
      if (state == live && at.key.load(relaxed) == key) return &at;
      if (state == 0) break;
    }
    return nullptr;
  }
  /// In `table`; false: it is full.
  bool put(std::uint64_t table, std::uint64_t slots, std::uint64_t key, std::uint64_t value) {
    for (std::uint64_t i = 0; i < slots; ++i) {
      Slot& at = slot_in(table, (mix64(key) + i) % slots);
      if (at.state.load(relaxed) == live) continue;
      at.key.store(key, relaxed);
      at.value.store(value, relaxed);
      pm::persist(&at, sizeof at);  // H2
      pm::store_persist(at.state, live);
      return true;
    }
    return false;
  }

  Outcome add(std::uint64_t key, std::uint64_t value) {
    while (!put(root_.table.load(relaxed), slots(), key, value))
      if (!grow()) return Outcome::out_of_space;
    return Outcome::ok;
  }
  /// H1. The defect: the new table is published before the records are in it.
  [[nodiscard]] bool grow() {
    const std::uint64_t old = root_.table.load(relaxed);
    const std::uint64_t old_slots = slots();
    Reservation block = pool_.heap().reserve(bytes_of(2 * old_slots));
    if (!block) return false;
    const std::uint64_t at = block.offset;
    format(pool_, at, 2 * old_slots);
    if (has(Defect::early_growth)) pool_.heap().publish({&block, 1}, &root_.table, at);
    for (std::uint64_t i = 0; i < old_slots; ++i)
      if (const Slot& from = slot_in(old, i); from.state.load(relaxed) == live)
        put(at, 2 * old_slots, from.key.load(relaxed), from.value.load(relaxed));
    if (!has(Defect::early_growth)) pool_.heap().publish({&block, 1}, &root_.table, at);
    pool_.heap().free(old, bytes_of(old_slots));
    return true;
  }
  static Outcome change(Slot& slot, std::uint64_t value) {
    pm::store_persist(slot.value, value);
    return Outcome::ok;
  }

  Pool& pool_;
  HashRoot& root_;
  pm::VersionLock lock_;
};

}  // namespace

std::vector<MediaStruct> hash_media(const IndexOptions&) {
  constexpr auto slot = static_cast<std::uint32_t>(sizeof(Slot));
  constexpr auto first = static_cast<std::uint32_t>(sizeof(HashTable));
  constexpr auto slots = static_cast<std::uint32_t>(HashRoot::first_slots);
  return {{"root", sizeof(HashRoot), {{"table", offsetof(HashRoot, table), 8}}},
          {"table",
           bytes_of(HashRoot::first_slots),
           {{"slots", offsetof(HashTable, slots), 8},
            {"slot[].state", first + offsetof(Slot, state), 8, slots, slot},
            {"slot[].key", first + offsetof(Slot, key), 8, slots, slot},
            {"slot[].value", first + offsetof(Slot, value), 8, slots, slot}}}};
}

Result<std::unique_ptr<IntegerIndex>> open_hash(const IndexPlace& place, Defect defect,
                                                bool repaired, bool create) {
  Pool& pool = *place.pool;
  if (create) {
    Reservation block = pool.heap().reserve(sizeof(HashRoot));
    Reservation first = pool.heap().reserve(bytes_of(HashRoot::first_slots));
    if (!block || !first) return Error{ErrorCode::out_of_space, "no room for a toy", "", ""};
    HashToy::format(pool, first.offset, HashRoot::first_slots);
    auto& root = *pool.at<HashRoot>(block.offset);
    root.table.store(first.offset, relaxed);
    pm::persist(&root, sizeof root);
    pool.heap().publish({&first, 1});
    if (auto done = pool.add_root(place.root_name, block); !done) return done.error();
    return std::unique_ptr<IntegerIndex>(std::make_unique<HashToy>(pool, root, defect, repaired));
  }
  return recovered(place, [&](std::uint64_t at) {
    return std::make_unique<HashToy>(pool, *pool.at<HashRoot>(at), defect, repaired);
  });
}

}  // namespace perdure::crash
