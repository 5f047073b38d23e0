#include "structure/linkedlist/linkedlist.h"

#include <string>

#include "structure/base/modes.h"

namespace perdure::structure {

template <class Memory>
Result<void> Linkedlist<Memory>::walk(Walk<Memory>& walk) const {
  const Element* before = nullptr;
  for (Ref<Element> ref = this->top().first; ref;) {
    const Element* const element = walk.template enter<Element>(ref);
    if (element == nullptr || !element->slot.is_sound())
      return corrupt("L1: a link leads to no element of its own");
    walk.count_record();
    if (!walk.recovers()) {
      const Place* const place = index_.find(element->key);
      if (place == nullptr || place->element != element || place->before != before)
        return corrupt("L3: key " + std::to_string(element->key) + " is not where the index says");
    }
    before = element;
    ref = element->next;
  }
  if (walk.recovers() || (before == last_ && walk.records() == index_.size())) return {};
  return corrupt("L3: the index has what the list has not");
}

template <class Memory>
Result<void> Linkedlist<Memory>::adopt() {
  for (Element* element = at(this->top().first); element != nullptr; element = at(element->next)) {
    if (index_.find(element->key) != nullptr)
      return corrupt("L1: key " + std::to_string(element->key) + " is there twice");
    index_.add(element->key, {element, last_});
    last_ = element;
  }
  return {};
}

template <class Memory>
Effect Linkedlist<Memory>::put(Change& change, std::uint64_t key, std::string_view value, Put how) {
  if (Place* const found = index_.find(key); found != nullptr) {
    if (how == Put::insert) return Effect::exists;
    this->rewrite(change, found->element->slot, value);
    return Effect::replaced;
  }
  if (how == Put::update) return Effect::not_found;
  auto* const element = change.template make<Element>();
  element->key = key;
  element->slot.write(value);
  element->next = this->memory_.template null<Element>();
  change.link(link_after(last_), this->memory_.ref(element));  // L2
  index_.add(key, {element, last_});
  last_ = element;
  return Effect::added;
}

template <class Memory>
Effect Linkedlist<Memory>::take(Change& change, std::uint64_t key) {
  const Place* const found = index_.find(key);
  if (found == nullptr) return Effect::not_found;
  const auto [element, before] = *found;
  Element* const after = at(element->next);
  change.link(link_after(before), element->next);
  change.drop(element);
  index_.remove(key);
  if (after != nullptr)
    index_.find(after->key)->before = before;
  else
    last_ = before;
  return Effect::removed;
}

namespace {

PERDURE_REGISTER_INDEX(
    linkedlist,
    IndexInfo{.name = "linkedlist",
              .title = "Append-only list with a DRAM hash index (Islam et al., MSST 2020)",
              .ordered = false,
              .options = options({records_option("of the index, to begin with")}),
              .modes = modes<Family<Linkedlist>>(Tearing::values)});

}  // namespace
}  // namespace perdure::structure
