// Walks of Hot in key order: scan and size.
#include "index/hot/hot.h"

namespace perdure {

// What lies beside a key's way is on the side of its zeros where the key has a one, so smaller, or
// the other way round.
template <class Keys>
void Hot<Keys>::seek(const KeyBits& from, Route& route) const {
  find(from, route);
  auto& steps = route.steps;
  if (steps.empty()) return;
  const unsigned position = KeyBits::first_difference(from, bits_of(route.leaf));
  if (position != hot::no_bit) {
    const Branch branch = branch_of(route, from, position);
    steps.shrink(branch.level + 1);
    steps.back().index = branch.one ? branch.range.end : branch.range.first;
  }
  for (std::size_t above = 0; above + 1 < steps.size(); ++above) ++steps[above].index;
}

template <class Keys>
void Hot<Keys>::prefetch(Entry entry) noexcept {
  if (hot::is_record(entry))
    pm::prefetch(record_of(entry));
  else
    hot::prefetch_node(entry);
}

// The records of a node lie anywhere; together they come sooner.
template <class Keys>
void Hot<Keys>::prefetch_entries(const Step& step) noexcept {
  if (step.node->height() > 1) return;
  for (unsigned i = step.index; i < step.node->entries(); ++i)
    prefetch(step.node->entry(i).load(std::memory_order_relaxed));
}

// Beside changes it reads some nodes as they were when they were replaced (H3): each record was
// present then. Keys that stay are in all of them, so none is missed, and nothing is read twice.
template <class Keys>
template <class Visit>
void Hot<Keys>::walk_from(Key from, Visit&& visit) const {
  const Epochs::Guard guard(epochs_);
  Route route;
  seek(KeyBits(from), route);
  bool reached = false;  // a record may have branched off below where the walk begins
  const auto pass = [&](Entry leaf) {
    const LeafRecord& record = *record_of(leaf);
    reached = reached || !(record.key() < from);
    return !reached || hot::is_dead(leaf) || visit(record);
  };
  auto& steps = route.steps;
  if (steps.empty()) {
    if (route.leaf != hot::no_entry) pass(route.leaf);
    return;
  }
  prefetch_entries(steps.back());
  while (!steps.empty()) {
    Step& step = steps.back();
    if (step.index == step.node->entries()) {
      steps.pop_back();
      continue;
    }
    const Entry entry = step.node->entry(step.index++).load(std::memory_order_acquire);
    if (hot::is_record(entry)) {
      if (!pass(entry)) return;
    } else {
      if (step.index < step.node->entries())
        prefetch(step.node->entry(step.index).load(std::memory_order_relaxed));
      steps.push_back({hot::node_of(entry), 0});
      prefetch_entries(steps.back());
    }
  }
}

template <class Keys>
std::size_t Hot<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  walk_from(from, [&](const LeafRecord& record) {
    out.append(record.key(), value_of(record));
    return out.size() < count;
  });
  return out.size();
}

template <class Keys>
std::uint64_t Hot<Keys>::size() const {
  std::uint64_t records = 0;
  walk_from(Key{}, [&](const LeafRecord&) {
    ++records;
    return true;
  });
  return records;
}

template std::size_t Hot<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t Hot<ByteKeys>::scan(Key, std::size_t, Scan&);
template std::uint64_t Hot<IntegerKeys>::size() const;
template std::uint64_t Hot<ByteKeys>::size() const;

}  // namespace perdure
