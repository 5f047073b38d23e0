// Lookups, bulk load and registration of Masstree.
#include "index/masstree/masstree.h"

#include "index/masstree/find.h"
#include "index/reference/in_memory.h"
#include "index/registry.h"

namespace perdure {

template <class Keys>
Masstree<Keys>::Masstree(bool huge_pages) : arena_(huge_pages), root_(new_node<Border>(0U)) {}

// To the right, as far as the slice has moved by splits since the border was found (B3). False:
// start again from the root.
template <class Keys>
bool Masstree<Keys>::advance(Position& at, std::uint64_t slice) noexcept {
  for (;;) {
    if (pm::VersionLock::is_obsolete(at.version)) return false;
    Border* const next = at.border->next.load(std::memory_order_acquire);
    if (next == nullptr || slice < next->lowest) return at.holds();
    const std::uint64_t version = next->lock.read_begin();
    if (!at.holds()) return false;
    at = {next, version};
  }
}

// Believe it under the lock, or once the node was validated.
template <class Keys>
auto Masstree<Keys>::spot_of(const Border& border, Permutation order, const Step& step) noexcept
    -> Spot {
  Spot spot;
  spot.rank = border.rank(order, step.slice, step.length, spot.taken);
  if (!spot.taken) return spot;
  spot.place = order.place(spot.rank);
  spot.entry = border.entry(spot.place);
  return spot;
}

template <class Keys>
auto Masstree<Keys>::find(Key key, std::size_t deepest) const noexcept -> std::optional<Place> {
  Node* root = root_.load(std::memory_order_acquire);
  for (Place place;; ++place.depth) {
    const Step step = masstree::step_at(key, place.depth);
    place.at = find_border(root, step.slice);
    if (place.at.border == nullptr) return std::nullopt;
    Spot& spot = place.spot;
    for (;;) {
      place.order = place.at.border->order();
      spot = spot_of(*place.at.border, place.order, step);
      if (place.at.holds()) break;
      place.at.version = place.at.border->lock.read_begin();
      if (!advance(place.at, step.slice)) return std::nullopt;
    }
    place.found = spot.taken;
    if (!place.found) return place;
    place.word = spot.entry.word;
    if (!is_link(spot.entry)) {
      place.found = is_of(spot.entry, key);
      return place;
    }
    if (place.depth == deepest) return place;
    Node* const known = root_of_link(spot.entry.word);
    root = climb(known);
    if (root != known) {  // M4: the next one need not climb
      std::uint64_t expected = spot.entry.word;
      place.at.border->words[spot.place].compare_exchange_strong(expected, link_to(root),
                                                                 std::memory_order_acq_rel);
    }
  }
}

template <class Keys>
Outcome Masstree<Keys>::lookup(Key key, ValueOut& value) {
  if constexpr (is_bytes)
    if (key.size() > max_key_bytes) return Outcome::not_found;
  const Epochs::Guard guard(epochs_);
  if constexpr (is_bytes) {
    std::optional<Place> place;
    for (pm::Backoff backoff; !(place = find(key)).has_value();) backoff.wait();
    if (!place->found) return Outcome::not_found;
    value = text_of(place->word)->value();
  } else {
    const Number number = find_number(key);
    if (!number.taken) return Outcome::not_found;
    value = number.word;
  }
  return Outcome::ok;
}

template <class Keys>
Result<void> Masstree<Keys>::bulk_load(std::span<const Record> records) {
  return load_by_inserts<Keys>(*this, records, [this] {
    Node* const old = root_.load();
    free_below(*old);
    root_ = new_node<Border>(0U);
  });
}

// No other thread runs. Frees the node, too.
template <class Keys>
void Masstree<Keys>::free_below(Node& node) noexcept {
  if (node.level > 0) {
    auto& interior = static_cast<Interior&>(node);
    for (unsigned i = 0; i <= interior.key_count(); ++i) free_below(*interior.child(i));
    return arena_.free(&interior, sizeof interior);
  }
  auto& border = static_cast<Border&>(node);
  const Permutation order = border.order();
  for (unsigned i = 0; i < order.count(); ++i) free_entry(border.entry(order.place(i)));
  arena_.free(&border, sizeof border);
}

template <class Keys>
void Masstree<Keys>::free_entry(const Entry& entry) noexcept {
  if constexpr (is_bytes) {
    if (is_link(entry))
      free_below(*climb(root_of_link(entry.word)));
    else
      TextRecord::free(arena_, text_of(entry.word));
  }
}

template class Masstree<IntegerKeys>;
template class Masstree<ByteKeys>;

PERDURE_REGISTER_INDEX(masstree, IndexInfo{
                                     .name = "masstree",
                                     .title = "Masstree (Mao et al., EuroSys 2012; volatile)",
                                     .index_class = IndexClass::in_memory,
                                     .create_integer = create_in_memory<Masstree, IntegerKeys>,
                                     .create_bytes = create_in_memory<Masstree, ByteKeys>,
                                 });

}  // namespace perdure
