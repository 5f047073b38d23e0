// StackOn: the stack on a memory: a list of elements, changed at its head.
//
//   Top      | loading | log | first |
//   Element  | next 8 or 16 | slot 128 |
//
// T1  a value is on the stack <=> its element can be reached from `first`, the last to come first.
// T2  an element is whole before `first`, the one word that pushes it, leads to it; a pop changes
//     that word only.
#pragma once

#include <string>

#include "structure/base/structure_index.h"
#include "structure/stack/stack.h"

namespace perdure::structure {

/// Kept like any structure (structure_index.h), whose operations get a key that says nothing.
template <class Memory>
class StackOn final : public Stack, private StructureIndex<StackOn<Memory>, Memory> {
  using Base = StructureIndex<StackOn<Memory>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  struct Element {
    Ref<Element> next;
    Slot slot;
  };
  static_assert(sizeof(Element) == sizeof(Slot) + sizeof(Ref<Element>));
  struct Top : Anchor {
    Ref<Element> first;
  };

  static constexpr const char* name = "stack";
  static constexpr std::uint64_t variant = 0;

  using Base::Base;
  ~StackOn() override { this->dismantle(); }
  using Base::create;
  using Base::recover;

  Outcome push(std::string_view value) override { return this->insert(no_key, value); }
  Outcome pop(std::string& value) override;
  Outcome top(std::string& value) override { return this->lookup(no_key, value); }
  void list(SlotScan& out) override { this->scan(no_key, ~std::size_t{0}, out); }
  [[nodiscard]] std::uint64_t size() const override { return Base::size(); }
  [[nodiscard]] Result<void> check_invariants() const override { return Base::check_invariants(); }

 private:
  static constexpr std::uint64_t no_key = 0;

  void prepare(Creation&, const IndexOptions&) { first() = this->memory_.template null<Element>(); }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  void clear(Creation& creation) { creation.link(first(), this->memory_.template null<Element>()); }

  [[nodiscard]] const Slot* find(std::uint64_t) const noexcept {
    const Element* const element = this->memory_.at(first());
    return element == nullptr ? nullptr : &element->slot;
  }
  Effect put(Change& change, std::uint64_t, std::string_view value, Put);
  Effect take(Change& change, std::uint64_t);
  void collect(std::uint64_t, std::size_t, SlotScan& out) const;

  [[nodiscard]] Ref<Element>& first() const noexcept { return Base::top().first; }
};

}  // namespace perdure::structure
