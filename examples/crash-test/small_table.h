// A table of 64 records behind a bitmap, as one writes it on a first afternoon with persistent
// memory. With `forgetful` an insert forgets to flush its record: every test on a machine that
// keeps its power passes. `crash-test` in CMakeLists.txt shows what the explorer says.
//
// S1  record i exists <=> bit i of `used` is set.
// S2  a record is durable before its bit is.
// S3  the lock (DRAM) is held until a change is durable: nobody reads what a power cut takes back.
#pragma once

#include <algorithm>
#include <bit>

#include "index/registry.h"
#include "pm/pm.h"

template <bool forgetful>
class SmallTable final : public perdure::IntegerIndex {
 public:
  using Outcome = perdure::Outcome;
  using Place = perdure::IndexPlace;
  using Made = perdure::Result<std::unique_ptr<perdure::IntegerIndex>>;

  static Made create(const Place& place) {
    perdure::Reservation block = place.pool->heap().reserve(sizeof(Table));
    if (!block) return perdure::Error{perdure::ErrorCode::out_of_space, "no room", "", ""};
    auto* const table = place.pool->template at<Table>(block.offset);
    table->used.store(0);
    perdure::pm::persist(&table->used, sizeof table->used);
    if (auto done = place.pool->add_root(place.root_name, block); !done) return done.error();
    return std::unique_ptr<perdure::IntegerIndex>(new SmallTable(*table));
  }
  static Made recover(const Place& place) {
    const auto roots = place.pool->roots();
    const auto root = std::ranges::find(roots, place.root_name, &perdure::PoolRoot::name);
    if (root == roots.end())
      return perdure::Error{perdure::ErrorCode::not_found, "no table", "", "create it"};
    if (auto done = place.pool->root_recovered(place.root_name); !done) return done.error();
    return std::unique_ptr<perdure::IntegerIndex>(
        new SmallTable(*place.pool->template at<Table>(root->offset)));
  }

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    return locked([&] { return find(key) < slots ? Outcome::exists : add(key, value); });
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    return locked([&] { return find(key) < slots ? change(key, value) : add(key, value); });
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    return locked([&] { return find(key) < slots ? change(key, value) : Outcome::not_found; });
  }
  Outcome remove(std::uint64_t key) override {
    return locked([&] {
      const unsigned slot = find(key);
      if (slot == slots) return Outcome::not_found;
      perdure::pm::store_persist(table_.used, table_.used & ~bit(slot));
      return Outcome::ok;
    });
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    return locked([&] {
      const unsigned slot = find(key);
      if (slot < slots) value = table_.record[slot].value;
      return slot < slots ? Outcome::ok : Outcome::not_found;
    });
  }
  std::size_t scan(std::uint64_t, std::size_t, perdure::IntegerScan&) override { return 0; }
  perdure::Result<void> bulk_load(std::span<const perdure::IntegerRecord>) override {
    return perdure::Error{perdure::ErrorCode::unsupported, "no bulk load", "", "insert"};
  }
  std::uint64_t size() const override { return std::uint64_t(std::popcount(table_.used.load())); }
  std::uint64_t most_records() const override { return slots; }
  perdure::Result<void> check_invariants() const override { return {}; }
  std::uint64_t dram_bytes() const override { return sizeof *this; }

 private:
  static constexpr unsigned slots = 64;
  struct Record {
    std::atomic<std::uint64_t> key, value;
  };
  struct Table {
    std::atomic<std::uint64_t> used;
    Record record[slots];
  };

  explicit SmallTable(Table& table) : table_(table) {}
  static std::uint64_t bit(unsigned slot) { return std::uint64_t{1} << slot; }

  template <class Work>
  Outcome locked(Work&& work) {
    while (!lock_.lock()) perdure::pm::pause();
    const Outcome outcome = work();
    lock_.unlock();
    return outcome;
  }
  unsigned find(std::uint64_t key) const {
    unsigned slot = 0;
    while (slot < slots && !((table_.used & bit(slot)) && table_.record[slot].key == key)) ++slot;
    return slot;
  }
  Outcome add(std::uint64_t key, std::uint64_t value) {
    const auto slot = unsigned(std::countr_one(table_.used.load()));
    if (slot == slots) return Outcome::out_of_space;
    table_.record[slot].key.store(key, std::memory_order_relaxed);
    table_.record[slot].value.store(value, std::memory_order_relaxed);
    if (!forgetful) perdure::pm::flush(&table_.record[slot], sizeof(Record));
    perdure::pm::fence();                                              // S2
    perdure::pm::store_persist(table_.used, table_.used | bit(slot));  // S1
    return Outcome::ok;
  }
  Outcome change(std::uint64_t key, std::uint64_t value) {
    perdure::pm::store_persist(table_.record[find(key)].value, value);
    return Outcome::ok;
  }

  Table& table_;
  perdure::pm::VersionLock lock_;
};
