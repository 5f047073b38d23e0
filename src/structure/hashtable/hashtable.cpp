#include "structure/hashtable/hashtable.h"

#include <string>

#include "structure/base/modes.h"

namespace perdure::structure {

template <class Memory>
void Hashtable<Memory>::prepare(Creation& creation, const IndexOptions& options) {
  this->top().table = heads_.create(creation, this->memory_, buckets_of(options),
                                    this->memory_.template null<Element>());
}

template <class Memory>
bool Hashtable<Memory>::reopen(Walk<Memory>& walk, std::uint64_t buckets) {
  return buckets > 0 && heads_.reopen(walk, this->top().table, buckets);
}

template <class Memory>
Result<void> Hashtable<Memory>::walk(Walk<Memory>& walk) const {
  heads_.walk(walk, this->top().table);
  for (std::uint64_t bucket = 0; bucket < heads_.size(); ++bucket)
    for (Head ref = heads_[bucket]; ref;) {
      const Element* const element = walk.template enter<Element>(ref);
      if (element == nullptr)
        return corrupt("H1: bucket " + std::to_string(bucket) + " leads to no element of its own");
      if (bucket_of(element->key) != bucket || !element->slot.is_sound())
        return corrupt("H1: bucket " + std::to_string(bucket) + " holds what is not its own");
      walk.count_record();
      ref = element->next;
    }
  return {};
}

template <class Memory>
void Hashtable<Memory>::clear(Creation& creation) {
  for (std::uint64_t bucket = 0; bucket < heads_.size(); ++bucket)
    creation.link(heads_[bucket], this->memory_.template null<Element>());
}

template <class Memory>
const Slot* Hashtable<Memory>::find(std::uint64_t key) const noexcept {
  for (const Element* element = at(heads_[bucket_of(key)]); element != nullptr;
       element = at(element->next))
    if (element->key == key) return &element->slot;
  return nullptr;
}

// In the frame of the operation: an update has fewer instructions then, and so more of them overlap
// as far as the reorder buffer reaches.
template <class Memory>
[[gnu::always_inline]] inline Effect Hashtable<Memory>::put(Change& change, std::uint64_t key,
                                                            std::string_view value, Put how) {
  Head& head = heads_[bucket_of(key)];
  Element* element = at(head);
  while (element != nullptr && element->key != key) element = at(element->next);
  if (element != nullptr) {
    if (how == Put::insert) return Effect::exists;
    this->rewrite(change, element->slot, value);
    return Effect::replaced;
  }
  if (how == Put::update) return Effect::not_found;
  auto* const added = change.template make<Element>();
  added->key = key;
  added->slot.write(value);
  added->next = head;
  change.link(head, this->memory_.ref(added));  // H2
  return Effect::added;
}

template <class Memory>
Effect Hashtable<Memory>::take(Change& change, std::uint64_t key) {
  Head* link = &heads_[bucket_of(key)];
  Element* element = at(*link);
  while (element != nullptr && element->key != key) {
    link = &element->next;
    element = at(*link);
  }
  if (element == nullptr) return Effect::not_found;
  change.link(*link, element->next);  // H3
  change.drop(element);
  return Effect::removed;
}

namespace {

PERDURE_REGISTER_INDEX(
    hashtable, IndexInfo{.name = "hashtable",
                         .title = "Chained hash table (Islam et al., MSST 2020)",
                         .ordered = false,
                         .options = options({records_option("a load factor of 0.75 at as many"),
                                             {.name = "buckets",
                                              .description = "chains; 0: as `records` says",
                                              .fallback = 0,
                                              .least = 0,
                                              .most = 1ULL << 33}}),
                         .modes = modes<Family<Hashtable>>(Tearing::values, {LockKind::buckets})});

}  // namespace
}  // namespace perdure::structure
