// Hashtable: a fixed array of buckets, each an unsorted chain of elements; a new one goes to the
// head. Study pmemids, section IV-A.
//
//   Top      | loading | log | table |
//   table    | head[0] | head[1] | ... | head[buckets-1] |      see structure/base/table.h
//   Element  | key 8 | next 8 or 16 | slot 128 |                152 B with object ids
//
// H1  a record exists <=> its element is reachable from the head of its key's bucket; no key is
//     there twice.
// H2  an element is whole before the head, the one word that makes it reachable, leads to it.
// H3  the word that leads to an element is the only one a remove changes.
// H4  an operation reads and changes one bucket, so buckets can be locked group by group.
#pragma once

#include "core/rng.h"
#include "structure/base/structure_index.h"
#include "structure/base/table.h"

namespace perdure::structure {

template <class Memory>
class Hashtable final : public StructureIndex<Hashtable<Memory>, Memory> {
  using Base = StructureIndex<Hashtable<Memory>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  struct Element {
    std::uint64_t key;
    Ref<Element> next;
    Slot slot;
  };
  static_assert(sizeof(Element) == 136 + sizeof(Ref<Element>));
  using Head = Ref<Element>;
  using Heads = Table<Memory, Head>;
  struct Top : Anchor {
    Ref<typename Heads::Directory> table;
  };

  static constexpr const char* name = "hashtable";
  static constexpr std::uint64_t variant = 0;

  using Base::Base;
  ~Hashtable() override { this->dismantle(); }

 private:
  void prepare(Creation& creation, const IndexOptions& options);
  [[nodiscard]] bool reopen(Walk<Memory>& walk, std::uint64_t buckets);
  [[nodiscard]] std::uint64_t table_size() const noexcept { return heads_.size(); }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  void clear(Creation& creation);
  [[nodiscard]] std::uint64_t extra_dram_bytes() const noexcept { return heads_.dram_bytes(); }

  [[nodiscard]] const Slot* find(std::uint64_t key) const noexcept;
  Effect put(Change& change, std::uint64_t key, std::string_view value, Put how);
  Effect take(Change& change, std::uint64_t key);
  void collect(std::uint64_t, std::size_t, SlotScan&) const {}  // unordered

  [[nodiscard]] std::uint64_t lock_group(std::uint64_t key) const noexcept {
    return bucket_of(key);
  }
  [[nodiscard]] std::uint64_t bucket_of(std::uint64_t key) const noexcept {
    return place_of(mix64(key), heads_.size());
  }
  [[nodiscard]] Element* at(Head ref) const noexcept { return this->memory_.at(ref); }

  Heads heads_;
};

}  // namespace perdure::structure
