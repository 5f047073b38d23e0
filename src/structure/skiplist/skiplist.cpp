#include "structure/skiplist/skiplist.h"

#include <bit>
#include <cstddef>
#include <string>

#include "pm/hints.h"
#include "pm/persist.h"
#include "structure/base/modes.h"

namespace perdure::structure {

template <class Memory>
auto Skiplist<Memory>::follow(const Link& link) const noexcept -> Link* {
  Link* const links = at(link.to)->next.data();
  pm::prefetch(links);  // those of the lower levels, if they begin in a line of their own
  return links;
}

template <class Memory>
auto Skiplist<Memory>::search(std::uint64_t key) const noexcept -> Element* {
  const Link* links = this->top().first.data();
  for (unsigned level = height_; level-- > 0;) {
    while (links[level].key < key) links = follow(links[level]);
    if (leads_to(links[level], key)) return at(links[level].to);
  }
  return nullptr;
}

template <class Memory>
auto Skiplist<Memory>::descend(std::uint64_t key, Place& place) const noexcept -> Link& {
  Link* links = this->top().first.data();
  for (unsigned level = height_; level-- > 0;) {
    while (links[level].key < key) links = follow(links[level]);
    place[level] = &links[level];
  }
  return links[0];
}

template <class Memory>
void Skiplist<Memory>::collect(std::uint64_t from, std::size_t count, SlotScan& out) const {
  Place place;
  for (const Element* element = at(descend(from, place).to);
       element != nullptr && out.size() < count; element = at(element->next[0].to))
    out.append(element->key, element->slot.value());
}

template <class Memory>
unsigned Skiplist<Memory>::draw_height() noexcept {
  return 1 + static_cast<unsigned>(std::countr_one(rng_() & ((1U << (levels - 1)) - 1)));
}

template <class Memory>
Result<void> Skiplist<Memory>::walk(Walk<Memory>& walk) const {
  // The link of each level that has not been followed. What it leads to is met in level 0, and has
  // been judged then (L2).
  Place open;
  for (unsigned level = 0; level < levels; ++level) open[level] = &this->top().first[level];
  std::uint64_t last = 0;
  for (bool first = true; *open[0]; first = false) {
    const Ref<Element> ref = open[0]->to;
    Element* const element =
        walk.template enter_sized<Element>(ref, bytes_of(1), [](const Element& seen) {
          return seen.height == 0 || seen.height > levels ? 0 : bytes_of(seen.height);
        });
    if (element == nullptr) return corrupt("L1: level 0 leads to no element of its own");
    if (!first && element->key <= last) return corrupt("L1: a key is out of order");
    if (!element->slot.is_sound()) return corrupt("L1: a value is longer than a slot");
    last = element->key;
    walk.count_record();
    for (unsigned level = 0; level < element->height; ++level) {
      if (open[level]->to != ref) continue;
      if (!agree(walk, *open[level], last)) return corrupt("L4: a link has another's key");
      open[level] = &element->next[level];
    }
  }
  for (Link* const left : open) {
    if (*left) return corrupt("L2: a level leads to what the one below does not have");
    if (!agree(walk, *left, nowhere().key)) return corrupt("L4: a null link has a key");
  }
  return {};
}

template <class Memory>
bool Skiplist<Memory>::agree(const Walk<Memory>& walk, Link& link, std::uint64_t key) {
  if (link.key == key) return true;
  if (!walk.recovers()) return false;
  link.key = key;
  pm::flush(&link.key, sizeof link.key);  // lost with the power, it is made right again
  return true;
}

template <class Memory>
Effect Skiplist<Memory>::put(Change& change, std::uint64_t key, std::string_view value, Put how) {
  if (how == Put::update) {
    Element* const found = search(key);
    if (found == nullptr) return Effect::not_found;
    this->rewrite(change, found->slot, value);
    return Effect::replaced;
  }
  Place place;
  if (const Link& link = descend(key, place); leads_to(link, key)) {
    if (how == Put::insert) return Effect::exists;
    this->rewrite(change, at(link.to)->slot, value);
    return Effect::replaced;
  }
  const unsigned height = draw_height();
  for (unsigned level = height_; level < height; ++level) place[level] = &this->top().first[level];
  auto* const element = change.template make<Element>(bytes_of(height));
  element->key = key;
  element->height = height;
  element->slot.write(value);
  for (unsigned level = 0; level < height; ++level) element->next[level] = *place[level];
  const Link link{this->memory_.ref(element), key};
  for (unsigned level = 0; level < height; ++level) change.link(*place[level], link);  // L3
  if (height > height_) height_ = height;
  return Effect::added;
}

template <class Memory>
Effect Skiplist<Memory>::take(Change& change, std::uint64_t key) {
  Place place;
  const Link found = descend(key, place);
  if (!leads_to(found, key)) return Effect::not_found;
  Element* const element = at(found.to);
  const auto height = static_cast<unsigned>(element->height);
  for (unsigned level = height; level-- > 0;)  // L3
    if (level < height_ && place[level]->to == found.to)
      change.link(*place[level], element->next[level]);
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
