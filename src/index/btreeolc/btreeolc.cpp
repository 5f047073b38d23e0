// Reading, checking and registration of BTreeOlc.
#include "index/btreeolc/btreeolc.h"

#include <array>
#include <string>

namespace perdure {

template <class Keys>
BTreeOlc<Keys>::BTreeOlc(const IndexPlace& place)
    : arena_(place.huge_pages),
      first_(new_leaf()),
      inner_(epochs_,
             {.entries = static_cast<unsigned>(place.options.get("inner_entries")),
              .huge_pages = place.huge_pages},
             first_) {}

template <class Keys>
auto BTreeOlc<Keys>::enter(Key key) const -> Entered {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = inner_.find(key, [](void* found) {
      auto* const leaf = static_cast<Leaf*>(found);
      leaf->prefetch();
      return Entered{leaf, leaf->lock.peek()};
    });
    if (!pm::VersionLock::is_locked(at.word) && !pm::VersionLock::is_obsolete(at.word)) return at;
  }
}

template <class Keys>
Outcome BTreeOlc<Keys>::lookup(Key key, ValueOut& value) {
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter(key);
    pm::ReadAttempt stable(at.leaf->lock, at.word);
    const LeafPosition position = search(*at.leaf, key, stable);
    const Entry entry = position.present ? at.leaf->entry(position.rank) : Entry{};
    if (!stable()) continue;
    if (!position.present) return Outcome::not_found;
    value = value_of(entry);
    return Outcome::ok;
  }
}

// Along the chain. The successor's version is read before this leaf is validated: then the
// successor was linked, and whoever takes it away later changes its version. A leaf that changed
// under our hands sends us back through the inner nodes, past the last record returned.
template <class Keys>
std::size_t BTreeOlc<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(epochs_);
  std::array<Entry, Leaf::entries> entries;
  Entry last;  // of the last record returned; its text outlives this thread's pin
  for (pm::Backoff backoff;; backoff.wait()) {
    const bool resumed = out.size() != 0;
    const Key bound = resumed ? key_of(last) : from;
    Entered at = enter(bound);
    for (bool is_first = true;; is_first = false) {
      pm::ReadAttempt stable(at.leaf->lock, at.word);
      const unsigned n = at.leaf->count();
      for (unsigned i = 0; i < n; ++i) entries[i] = at.leaf->entry(i);
      Entered next{at.leaf->next(), 0};
      if (!stable()) break;
      if (next.leaf != nullptr) {
        next.leaf->prefetch();
        next.word = next.leaf->lock.read_begin();
        if (!stable()) break;
      }
      for (unsigned i = 0; i < n; ++i) {
        const Key key = key_of(entries[i]);
        if (is_first && (resumed ? key <= bound : key < bound)) continue;
        out.append(key, value_of(entries[i]));
        last = entries[i];
        if (out.size() == count) return count;
      }
      if (next.leaf == nullptr) return out.size();
      at = next;
    }
  }
}

template <class Keys>
std::uint64_t BTreeOlc<Keys>::size() const {
  std::uint64_t records = 0;
  const Epochs::Guard guard(epochs_);
  for (const Leaf* leaf = first_; leaf != nullptr; leaf = leaf->next()) records += leaf->count();
  return records;
}

namespace {

Error broken(const char* invariant) {
  return {ErrorCode::corrupt, std::string("breaks ") + invariant, "btreeolc",
          "report this as a bug"};
}

}  // namespace

template <class Keys>
Result<void> BTreeOlc<Keys>::check_invariants() const {
  const Leaf* expected = first_;
  auto checked = inner_.check([&](void* child, const Key* low, const Key* high) -> Result<void> {
    const auto& leaf = *static_cast<const Leaf*>(child);
    if (&leaf != expected) return broken("T1");
    expected = leaf.next();
    return check_leaf(leaf, low, high);
  });
  if (!checked) return checked;
  return expected == nullptr ? Result<void>() : broken("T1");
}

template <class Keys>
Result<void> BTreeOlc<Keys>::check_leaf(const Leaf& leaf, const Key* low, const Key* high) const {
  const std::uint64_t word = leaf.lock.peek();
  if (pm::VersionLock::is_locked(word) || pm::VersionLock::is_obsolete(word)) return broken("T4");
  const unsigned n = leaf.count();
  if (n == 0 && &leaf != first_) return broken("T3");
  for (unsigned i = 0; i < Leaf::entries; ++i) {
    const Entry entry = leaf.entry(i);
    if (i >= n) {
      if (entry.key != Leaf::unused_key) return broken("S2");
      continue;
    }
    const Key key = key_of(entry);
    if (key_word(key) != entry.key || (i > 0 && key <= key_of(leaf.entry(i - 1))))
      return broken("S1");
    if ((low != nullptr && key < *low) || (high != nullptr && key >= *high)) return broken("T2");
  }
  return {};
}

template class BTreeOlc<IntegerKeys>;
template class BTreeOlc<ByteKeys>;

namespace {

template <class Keys>
MadeIndex<Keys> create(const IndexPlace& place) {
  return std::unique_ptr<OrderedIndex<Keys>>(std::make_unique<BTreeOlc<Keys>>(place));
}

PERDURE_REGISTER_INDEX(btreeolc,
                       IndexInfo{
                           .name = "btreeolc",
                           .title = "B+-tree with optimistic lock coupling (volatile)",
                           .index_class = IndexClass::in_memory,
                           .options = {{.name = "inner_entries",
                                        .description = "separators an inner node holds; 15 make it"
                                                       " 256 bytes",
                                        .fallback = 15,
                                        .least = 3,
                                        .most = 1024}},
                           .create_integer = create<IntegerKeys>,
                           .create_bytes = create<ByteKeys>,
                       });

}  // namespace
}  // namespace perdure
