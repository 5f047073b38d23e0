#include "structure/arraylist/arraylist.h"

#include <string>

#include "structure/base/modes.h"

namespace perdure::structure {

template <class Memory>
void Arraylist<Memory>::prepare(Creation& creation, const IndexOptions& options) {
  const std::uint64_t slots = options.get("records");
  this->top().ids = ids_.create(creation, this->memory_, slots, Id{});
  this->top().slots = slots_.create(creation, this->memory_, slots, Slot{});
  map_ = IdMap<Place>(slots, this->huge_pages_);
  list_free();
}

template <class Memory>
void Arraylist<Memory>::list_free() {
  for (std::uint64_t i = ids_.size(); i-- > 0;)
    if (ids_[i].used == 0) free_.push_back(i);
}

template <class Memory>
bool Arraylist<Memory>::reopen(Walk<Memory>& walk, std::uint64_t slots) {
  return slots > 0 && ids_.reopen(walk, this->top().ids, slots) &&
         slots_.reopen(walk, this->top().slots, slots);
}

template <class Memory>
Result<void> Arraylist<Memory>::walk(Walk<Memory>& walk) const {
  ids_.walk(walk, this->top().ids);
  slots_.walk(walk, this->top().slots);
  for (std::uint64_t i = 0; i < ids_.size(); ++i) {
    const Id& id = ids_[i];
    if (id.used == 0) continue;
    if (id.used != 1 || !slots_[i].is_sound())
      return corrupt("A1: slot " + std::to_string(i) + " is damaged");
    walk.count_record();
    if (walk.recovers()) continue;
    const Place* const place = map_.find(id.key);
    if (place == nullptr || place->slot() != i)
      return corrupt("A3: key " + std::to_string(id.key) + " is not where the map says");
  }
  if (walk.recovers() || walk.records() == map_.size()) return {};
  return corrupt("A3: the map has what the array has not");
}

template <class Memory>
void Arraylist<Memory>::clear(Creation& creation) {
  for (std::uint64_t i = 0; i < ids_.size(); ++i)
    if (ids_[i].used != 0) creation.set(ids_[i].used, 0);
}

template <class Memory>
Result<void> Arraylist<Memory>::adopt() {
  map_ = IdMap<Place>(ids_.size(), this->huge_pages_);
  for (std::uint64_t i = 0; i < ids_.size(); ++i) {
    if (ids_[i].used == 0) continue;
    if (map_.find(ids_[i].key) != nullptr)
      return corrupt("A1: key " + std::to_string(ids_[i].key) + " is there twice");
    map_.add(ids_[i].key, {i + 1});
  }
  list_free();
  return {};
}

// In one frame with what calls it: the fewer instructions an operation has, the more operations are
// under way while the first waits for its line of the map.
template <class Memory>
[[gnu::always_inline]] inline Effect Arraylist<Memory>::put(Change& change, std::uint64_t key,
                                                            std::string_view value, Put how) {
  if (const Place* const found = map_.find(key); found != nullptr) {
    if (how == Put::insert) return Effect::exists;
    this->rewrite(change, slots_[found->slot()], value);
    return Effect::replaced;
  }
  if (how == Put::update) return Effect::not_found;
  if (free_.empty()) throw NoRoom{};
  const std::uint64_t place = free_.back();
  Id& id = ids_[place];
  Slot& slot = slots_[place];
  change.edit({range(&id.key, 1), {&slot, Slot::written_bytes(value)}}, [&] {
    id.key = key;
    slot.write(value);
  });
  change.set(id.used, 1);  // A2
  free_.pop_back();
  map_.add(key, {place + 1});
  return Effect::added;
}

template <class Memory>
Effect Arraylist<Memory>::take(Change& change, std::uint64_t key) {
  const Place* const found = map_.find(key);
  if (found == nullptr) return Effect::not_found;
  const std::uint64_t place = found->slot();
  change.set(ids_[place].used, 0);
  map_.remove(key);
  free_.push_back(place);
  return Effect::removed;
}

namespace {

PERDURE_REGISTER_INDEX(arraylist,
                       IndexInfo{.name = "arraylist",
                                 .title = "Array of fixed slots (Islam et al., MSST 2020)",
                                 .ordered = false,
                                 .options = options({records_option("slots of the array")}),
                                 .modes = modes<Family<Arraylist>>(Tearing::values)});

}  // namespace
}  // namespace perdure::structure
