#include "structure/stack/stack.h"

#include <utility>

#include "structure/stack/stack_on.h"

namespace perdure::structure {

template <class Memory>
Outcome StackOn<Memory>::pop(std::string& value) {
  return this->change([&](Change& change) {
    const Slot* const slot = find(no_key);
    if (slot != nullptr) value.assign(slot->value());
    return take(change, no_key);
  });
}

template <class Memory>
Result<void> StackOn<Memory>::walk(Walk<Memory>& walk) const {
  for (Ref<Element> ref = first(); ref;) {
    const Element* const element = walk.template enter<Element>(ref);
    if (element == nullptr || !element->slot.is_sound())
      return corrupt("T1: a link leads to no element of its own");
    walk.count_record();
    ref = element->next;
  }
  return {};
}

template <class Memory>
Effect StackOn<Memory>::put(Change& change, std::uint64_t, std::string_view value, Put) {
  auto* const element = change.template make<Element>();
  element->slot.write(value);
  element->next = first();
  change.link(first(), this->memory_.ref(element));  // T2
  return Effect::added;
}

template <class Memory>
Effect StackOn<Memory>::take(Change& change, std::uint64_t) {
  Element* const element = this->memory_.at(first());
  if (element == nullptr) return Effect::not_found;
  change.link(first(), element->next);  // T2
  change.drop(element);
  return Effect::removed;
}

template <class Memory>
void StackOn<Memory>::collect(std::uint64_t, std::size_t, SlotScan& out) const {
  std::uint64_t depth = 0;
  for (Ref<Element> ref = first(); ref;) {
    const Element& element = *this->memory_.at(ref);
    out.append(depth++, element.slot.value());
    ref = element.next;
  }
}

namespace {

enum class Start : std::uint8_t { create, recover };

template <class Memory>
Result<std::unique_ptr<Stack>> make(const StackPlace& place, Start start) {
  IndexPlace index_place;
  index_place.pool = place.pool;
  index_place.root_name = place.root_name;
  auto stack = std::make_unique<StackOn<Memory>>(place.pool);
  auto done = start == Start::create ? stack->create(index_place) : stack->recover(index_place);
  if (!done) return done.error();
  return std::unique_ptr<Stack>(std::move(stack));
}

template <template <class> class Memory>
Result<std::unique_ptr<Stack>> make_persistent(const StackPlace& place, Start start) {
  return place.offsets ? make<Memory<Offsets>>(place, start)
                       : make<Memory<ObjectIds>>(place, start);
}

Result<std::unique_ptr<Stack>> make(const StackPlace& place, Start start) {
  const auto in_pool = [&](HeapKind heap) {
    return place.pool != nullptr && place.pool->heap_kind() == heap;
  };
  const bool recovers = start == Start::recover;
  const bool dram = place.mode == VolatileMemory::dram_mode && !in_pool(HeapKind::memkind);
  const bool pmem = place.mode == VolatileMemory::pmem_mode && in_pool(HeapKind::memkind);
  if (!recovers && (dram || pmem)) return make<VolatileMemory>(place, start);
  if (place.mode == PmemPersistMemory<Offsets>::mode && in_pool(HeapKind::pmdk))
    return make_persistent<PmemPersistMemory>(place, start);
  if (place.mode == PmemTransMemory<Offsets>::mode && in_pool(HeapKind::pmdk))
    return make_persistent<PmemTransMemory>(place, start);
  return Error{ErrorCode::usage,
               "a stack cannot be " + std::string(recovers ? "recovered" : "made") + " in mode '" +
                   place.mode + "' here",
               "",
               "pmem-trans and pmem-persist take a pool with heap pmdk and recover, pmem-volatile "
               "takes one with heap memkind, dram takes none"};
}

}  // namespace

Result<std::unique_ptr<Stack>> create_stack(const StackPlace& place) {
  return make(place, Start::create);
}
Result<std::unique_ptr<Stack>> recover_stack(const StackPlace& place) {
  return make(place, Start::recover);
}

}  // namespace perdure::structure
