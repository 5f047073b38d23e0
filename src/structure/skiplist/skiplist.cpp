#include "structure/skiplist/skiplist.h"

#include <bit>
#include <cstddef>
#include <string>

#include "pm/hints.h"
#include "structure/memory/modes.h"

namespace perdure::structure {

template <class Memory>
const Slot* Skiplist<Memory>::find(std::uint64_t key) const noexcept {
  Place place;
  const Element* const element = descend(key, place, true);
  return element != nullptr && element->key == key ? &element->slot : nullptr;
}

template <class Memory>
auto Skiplist<Memory>::descend(std::uint64_t key, Place& place, bool stops) const noexcept
    -> Element* {
  constexpr unsigned ahead = 2;  // levels
  Links* links = &this->top().first;
  Element* next = nullptr;
  Element* not_below = nullptr;  // met one level up: no need to look at it again
  for (unsigned level = height_; level-- > 0;) {
    for (;; links = &next->next) {
      next = at((*links)[level]);
      if (next == not_below) break;
      // Until the search goes on to another element it looks at these: their misses overlap.
      for (unsigned below = level; below > 0 && below + ahead > level; --below)
        if (const Element* const met = at((*links)[below - 1])) pm::prefetch(&met->key);
      if (next->key >= key) break;
    }
    if (stops && next != nullptr && next != not_below && next->key == key) return next;
    not_below = next;
    place[level] = links;
  }
  return next;
}

template <class Memory>
void Skiplist<Memory>::collect(std::uint64_t from, std::size_t count, SlotScan& out) const {
  Place place;
  for (const Element* element = descend(from, place, false);
       element != nullptr && out.size() < count; element = at(element->next[0]))
    out.append(element->key, element->slot.value());
}

template <class Memory>
unsigned Skiplist<Memory>::draw_height() noexcept {
  return 1 + static_cast<unsigned>(std::countr_one(rng_() & ((1U << (levels - 1)) - 1)));
}

template <class Memory>
Result<void> Skiplist<Memory>::walk(Walk<Memory>& walk) const {
  // What each level leads to next: met in level 0, it is a node that has been judged (L2).
  Links expected = this->top().first;
  std::uint64_t last = 0;
  for (bool first = true; expected[0]; first = false) {
    const Ref<Element> ref = expected[0];
    const Element* const element =
        walk.template enter_sized<Element>(ref, bytes_of(1), [](const Element& seen) {
          return seen.height == 0 || seen.height > levels ? 0 : bytes_of(seen.height);
        });
    if (element == nullptr) return corrupt("L1: level 0 leads to no element of its own");
    if (!first && element->key <= last) return corrupt("L1: a key is out of order");
    if (!element->slot.is_sound()) return corrupt("L1: a value is longer than a slot");
    last = element->key;
    walk.count_record();
    for (unsigned level = 0; level < element->height; ++level)
      if (expected[level] == ref) expected[level] = element->next[level];
  }
  for (const Ref<Element>& left : expected)
    if (left) return corrupt("L2: a level leads to what the one below does not have");
  return {};
}

template <class Memory>
Effect Skiplist<Memory>::put(Change& change, std::uint64_t key, std::string_view value, Put how) {
  Place place;
  if (Element* const found = descend(key, place, true); found != nullptr && found->key == key) {
    if (how == Put::insert) return Effect::exists;
    this->rewrite(change, found->slot, value);
    return Effect::replaced;
  }
  if (how == Put::update) return Effect::not_found;
  const unsigned height = draw_height();
  for (unsigned level = height_; level < height; ++level) place[level] = &this->top().first;
  auto* const element = change.template make<Element>(bytes_of(height));
  element->key = key;
  element->height = height;
  element->slot.write(value);
  for (unsigned level = 0; level < height; ++level) element->next[level] = (*place[level])[level];
  const Ref<Element> ref = this->memory_.ref(element);
  for (unsigned level = 0; level < height; ++level)  // L3
    change.link((*place[level])[level], ref);
  if (height > height_) height_ = height;
  return Effect::added;
}

template <class Memory>
Effect Skiplist<Memory>::take(Change& change, std::uint64_t key) {
  Place place;
  Element* const element = descend(key, place, false);
  if (element == nullptr || element->key != key) return Effect::not_found;
  const auto height = static_cast<unsigned>(element->height);
  const Ref<Element> ref = this->memory_.ref(element);
  for (unsigned level = height; level-- > 0;)  // L3
    if (level < height_ && (*place[level])[level] == ref)
      change.link((*place[level])[level], element->next[level]);
  change.drop(element, bytes_of(height));
  return Effect::removed;
}

namespace {

PERDURE_REGISTER_INDEX(skiplist, IndexInfo{.name = "skiplist",
                                           .title = "Skip list (Islam et al., MSST 2020)",
                                           .options = options(),
                                           .modes = modes<Family<Skiplist>>(Tearing::values)});

}  // namespace
}  // namespace perdure::structure
