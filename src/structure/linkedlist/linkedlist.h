// Linkedlist: an append-only list, its elements found through a hash index in DRAM. Study pmemids,
// section IV-A.
//
//   Top      | loading | log | first |
//   Element  | key 8 | slot 128 | next 8 or 16 |     152 B with object ids
//
// L1  a record exists <=> its element can be reached from `first`; no key is there twice.
// L2  an element is whole before the one word that appends it, the last link, leads to it.
// L3  the index in DRAM has every element and the one before it; recovery builds it.
#pragma once

#include "structure/base/id_map.h"
#include "structure/base/structure_index.h"

namespace perdure::structure {

template <class Memory>
class Linkedlist final : public StructureIndex<Linkedlist<Memory>, Memory> {
  using Base = StructureIndex<Linkedlist<Memory>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  struct Element {
    std::uint64_t key;
    Slot slot;
    Ref<Element> next;
  };
  static_assert(sizeof(Element) == 136 + sizeof(Ref<Element>));
  struct Top : Anchor {
    Ref<Element> first;
  };

  static constexpr const char* name = "linkedlist";
  static constexpr std::uint64_t variant = 0;

  using Base::Base;
  ~Linkedlist() override { this->dismantle(); }

 private:
  struct Place {
    Element* element;
    Element* before;  ///< null: it is the first
    [[nodiscard]] explicit operator bool() const noexcept { return element != nullptr; }
  };

  void prepare(Creation&, const IndexOptions& options) {
    this->top().first = this->memory_.template null<Element>();
    index_ = IdMap<Place>(options.get("records"), this->huge_pages_);
  }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  void clear(Creation& creation) {
    creation.link(this->top().first, this->memory_.template null<Element>());
  }
  [[nodiscard]] Result<void> adopt();
  [[nodiscard]] std::uint64_t extra_dram_bytes() const noexcept { return index_.dram_bytes(); }

  [[nodiscard]] const Slot* find(std::uint64_t key) const noexcept {
    const Place* const place = index_.find(key);
    return place == nullptr ? nullptr : &place->element->slot;
  }
  Effect put(Change& change, std::uint64_t key, std::string_view value, Put how);
  Effect take(Change& change, std::uint64_t key);
  void collect(std::uint64_t, std::size_t, SlotScan&) const {}  // unordered

  [[nodiscard]] Element* at(Ref<Element> ref) const noexcept { return this->memory_.at(ref); }
  [[nodiscard]] Ref<Element>& link_after(Element* before) const noexcept {
    return before == nullptr ? this->top().first : before->next;
  }

  IdMap<Place> index_;
  Element* last_ = nullptr;
};

}  // namespace perdure::structure
