// Arraylist: an unsorted array of fixed slots, allocated once; a record keeps its slot, which an id
// map in DRAM finds. Study pmemids, section IV-A.
//
//   Top     | loading | log | ids | slots |
//   ids     | id[0] | id[1] | ...       Id: key 8 | used 8     see structure/base/table.h
//   slots   | slot[0] | slot[1] | ...   128 B each
//
// A1  a record exists <=> the id of its slot is used; no key is used twice.
// A2  slot and key are durable before `used`, the one word that makes the record exist, is set.
// A3  the map in DRAM has every used id, the list of free ones every other; recovery builds both.
#pragma once

#include <vector>

#include "structure/base/id_map.h"
#include "structure/base/structure_index.h"
#include "structure/base/table.h"

namespace perdure::structure {

template <class Memory>
class Arraylist final : public StructureIndex<Arraylist<Memory>, Memory> {
  using Base = StructureIndex<Arraylist<Memory>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  struct Id {
    std::uint64_t key;
    std::uint64_t used;
  };
  using Ids = Table<Memory, Id>;
  using Slots = Table<Memory, Slot>;
  struct Top : Anchor {
    Ref<typename Ids::Directory> ids;
    Ref<typename Slots::Directory> slots;
  };

  static constexpr const char* name = "arraylist";
  static constexpr std::uint64_t variant = 0;

  using Base::Base;
  ~Arraylist() override { this->dismantle(); }

  [[nodiscard]] std::uint64_t most_records() const override { return ids_.size(); }

 private:
  struct Place {
    std::uint64_t slot_and_one;
    [[nodiscard]] explicit operator bool() const noexcept { return slot_and_one != 0; }
    [[nodiscard]] std::uint64_t slot() const noexcept { return slot_and_one - 1; }
  };

  void prepare(Creation& creation, const IndexOptions& options);
  [[nodiscard]] bool reopen(Walk<Memory>& walk, std::uint64_t slots);
  [[nodiscard]] std::uint64_t table_size() const noexcept { return ids_.size(); }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  void clear(Creation& creation);
  [[nodiscard]] Result<void> adopt();
  [[nodiscard]] std::uint64_t extra_dram_bytes() const noexcept {
    return ids_.dram_bytes() + slots_.dram_bytes() + map_.dram_bytes() +
           free_.capacity() * sizeof(std::uint64_t);
  }

  [[nodiscard]] const Slot* find(std::uint64_t key) const noexcept {
    const Place* const place = map_.find(key);
    return place == nullptr ? nullptr : &slots_[place->slot()];
  }
  Effect put(Change& change, std::uint64_t key, std::string_view value, Put how);
  Effect take(Change& change, std::uint64_t key);
  void collect(std::uint64_t, std::size_t, SlotScan&) const {}  // unordered

  void list_free();

  Ids ids_;
  Slots slots_;
  IdMap<Place> map_;
  std::vector<std::uint64_t> free_;  ///< the lowest last
};

}  // namespace perdure::structure
