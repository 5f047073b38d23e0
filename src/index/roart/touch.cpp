// Roart before its walk has ended: what is met for the first time in this opening is judged,
// repaired and marked (T7), node above child, by whoever wants to change it and by the walk.
// Readers touch nothing. They check each offset before they follow it; what a power cut left over
// lies outside the range of its entry, where they do not look.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "index/roart/roart.h"

namespace perdure {

template <class Keys>
Result<std::vector<roart::Entry>> Roart<Keys>::judge_entries(Node& node, bool repairs) const {
  const std::uint64_t offset = offset_of(&node);
  const Kind kind = node.kind;
  std::vector<Entry> entries;
  entries.reserve(Node::capacity(kind));
  for (unsigned i = 0; i < Node::capacity(kind); ++i) {
    const Entry entry = node.entry(i);
    if (!entry) continue;
    if (entry.symbol() > roart::last_symbol || (kind == Kind::n256 && entry.symbol() != i))
      return corrupt("N2: an entry has another's symbol", offset);
    entries.push_back(entry);
  }
  // By symbols; a projection would cost a call for each.
  std::ranges::sort(entries, [](Entry a, Entry b) { return a.word() < b.word(); });
  if (entries.empty() || entries.front().symbol() != 0)
    return corrupt("N2: a node has no lowest entry", offset);
  for (std::size_t i = 1; i < entries.size();) {
    if (entries[i].symbol() == entries[i - 1].symbol())
      return corrupt("N2: two entries have the same symbol", offset);
    if (!entries[i].same_child(entries[i - 1])) {
      ++i;
      continue;
    }
    if (!repairs) return corrupt("T2: two entries lead to the same child", offset);
    pm::store_persist(node.word_of(entries[i]), 0);
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return entries;
}

template <class Keys>
Result<std::uint64_t> Roart<Keys>::judge_records(LeafArray& array, const Path& path, unsigned level,
                                                 unsigned low, unsigned high,
                                                 std::vector<Key>* keys) const {
  const bool repairs = keys == nullptr;
  const std::uint64_t offset = offset_of(&array);
  if (!array.ends_at(entries_)) return corrupt("A1: a slot beyond the last is used", offset);
  bool cut = false;
  std::uint64_t records = 0;
  LeafArray::Words words;
  const auto used = array.used(entries_, words);
  for (const std::uint64_t word : used) {
    const std::uint64_t at = Slot(word).offset();
    if (Result<void> sane = records_.check_place(at); !sane) return sane.error();
    records_.prefetch(at);
  }
  for (const std::uint64_t word : used) {
    const Slot slot(word);
    if (Result<void> sane = records_.check(slot.offset()); !sane) return sane.error();
    const Key key = records_.key_of(slot.offset());
    if (Probe(key).fingerprint != slot.fingerprint())
      return corrupt("A1: a fingerprint is not its key's", offset);
    if (!roart::same_up_to(Path(key), path, level))
      return corrupt("N1: a record is not on the path to it", slot.offset());
    const unsigned symbol = roart::symbol_at(Path(key), level);
    if (symbol >= high && repairs) {  // T2: it is in the array beside, or was removed there
      array.clear(slot);
      cut = true;
      continue;
    }
    if (symbol < low || symbol >= high)
      return corrupt("T2: a record is below another's entry", slot.offset());
    if (!repairs)
      keys->push_back(key);
    else if (Result<void> marked = records_.mark(slot.offset()); !marked)
      return marked.error();
    ++records;
  }
  if (cut) pm::persist(array.word.data(), entries_ * sizeof array.word[0]);
  return records;
}

// A child that is of this opening already would have been touched before the node above it (T7): it
// is linked twice, or its lock is damaged.
template <class Keys>
Result<void> Roart<Keys>::mark_children(Node& node) const {
  const Result<std::vector<Entry>> entries = judge_entries(node, true);
  if (!entries) return entries.error();
  for (const Entry entry : *entries) {
    const std::uint64_t at = entry.offset();
    const bool is_node = Node::is_kind(entry.kind());
    if (!is_node && !entry.is_array()) return corrupt("N3: an entry is of no kind", at);
    if (!heap_.mark(at, is_node ? Node::bytes_of(entry.kind()) : sizeof(LeafArray)))
      return corrupt("N4: an entry leads to no block of the heap, or to another's", at);
    if (!is_of_before(lock_of(entry).opening()))
      return corrupt("T7: a child was touched before its node", at);
  }
  return {};
}

template <class Keys>
Result<void> Roart<Keys>::touch_node(Node& node, const Node& above, Entry entry, Entry after,
                                     const Path& path) const {
  const std::uint64_t offset = offset_of(&node);
  if (node.kind != entry.kind()) return corrupt("N3: a node is not of its entry's kind", offset);
  if (node.level <= above.level || node.level > deepest_level ||
      node.level - above.level > Node::held_bytes)
    return corrupt("N1: a node's level is impossible", offset);
  for (unsigned at = node.level - std::min(node.level, Node::held_bytes); at < above.level; ++at)
    if (node.symbol_of(at) != roart::symbol_at(path, at))
      return corrupt("N1: a node is not on the path to it", offset);
  const unsigned own = node.symbol_of(above.level);
  if (own < entry.symbol() || (after && own >= after.symbol()) || (above.level == 0 && own != 1))
    return corrupt("T2: a node is below another's entry", offset);
  return mark_children(node);
}

// Who finds the word of now and locked may have to wait for another's touch. The range of an entry
// does not change, nor the child's place, while it is untouched (T7): so what `above` said is right
// once the word is taken over, even if `above` has changed or been replaced meanwhile.
template <class Keys>
bool Roart<Keys>::touch(const Node& above, Entry entry, Entry after, const Path& path) const {
  roart::OpeningLock& lock = lock_of(entry);
  for (pm::Backoff backoff;; backoff.wait()) {
    const std::uint16_t before = lock.opening();
    if (before == opening_) {
      if (!roart::OpeningLock::is_locked(lock.peek())) return true;
    } else if (state_.is_damaged()) {
      return false;
    } else if (is_of_before(before) && lock.take_over(before, opening_)) {
      Result<void> done;
      if (entry.is_array()) {
        const Result<std::uint64_t> records =
            judge_records(*array_at(entry), path, above.level, entry.symbol(),
                          after ? after.symbol() : roart::last_symbol + 1, nullptr);
        if (!records) done = records.error();
      } else {
        done = touch_node(*node_at(entry), above, entry, after, path);
      }
      if (done) {
        lock.unlock_unchanged();
        return true;
      }
      note_damage(done.error());
      lock.give_back(before);
      return false;
    }
  }
}

template <class Keys>
bool Roart<Keys>::is_sane_child(const Node& above, Entry entry) const {
  const std::uint64_t at = entry.offset();
  if (at % pm::cache_line_bytes == 0) {
    if (entry.is_array() && pool_.contains(at, sizeof(LeafArray))) return true;
    if (Node::is_kind(entry.kind()) && pool_.contains(at, Node::bytes_of(entry.kind())))
      if (const Node& node = *node_at(entry);
          node.kind == entry.kind() && node.level > above.level && node.level <= deepest_level &&
          node.level - above.level <= Node::held_bytes)
        return true;
  }
  note_damage(corrupt("N4: an entry leads to nothing that it names", at));
  return false;
}

template <class Keys>
bool Roart<Keys>::is_sane(Slot slot) const {
  const auto noted = [this](const Result<void>& sane) {
    if (!sane) note_damage(sane.error());
    return sane.ok();
  };
  return noted(records_.check_place(slot.offset())) && noted(records_.check(slot.offset()));
}

template <class Keys>
Outcome Roart<Keys>::lookup_early(Key key, ValueOut& value) const {
  const Path path(key);
  const Probe probe(key);
  const Epochs::Guard guard(epochs_);
  const Node* node = root_;
  Entry entry = root_->find(roart::symbol_at(path, 0));
  while (!state_.is_damaged()) {
    if (!is_sane_child(*node, entry)) break;
    if (!entry.is_array()) {
      node = node_at(entry);
      entry = node->find(roart::symbol_at(path, node->level));
      continue;
    }
    const LeafArray& array = *array_at(entry);
    const LeafArray::Found found = array.find(probe.fingerprint, entries_, [&](Slot slot) {
      return is_sane(slot) && records_.key_of(slot.offset()) == probe.key;
    });
    if (state_.is_damaged()) break;
    if (found.slot) records_.read_value(found.slot.offset(), value);
    if (!is_settled_early(array)) {  // A3
      if (found.slot) records_.flush(found.slot.offset());
      pm::persist(array.word.data(), sizeof array.word);
    }
    return found.slot ? Outcome::ok : Outcome::not_found;
  }
  return Outcome::invalid;
}

template Result<std::vector<roart::Entry>> Roart<IntegerKeys>::judge_entries(Node&, bool) const;
template Result<std::uint64_t> Roart<IntegerKeys>::judge_records(LeafArray&, const Path&, unsigned,
                                                                 unsigned, unsigned,
                                                                 std::vector<Key>*) const;
template Result<void> Roart<IntegerKeys>::mark_children(Node&) const;
template bool Roart<IntegerKeys>::touch(const Node&, Entry, Entry, const Path&) const;
template bool Roart<IntegerKeys>::is_sane_child(const Node&, Entry) const;
template bool Roart<IntegerKeys>::is_sane(Slot) const;
template Outcome Roart<IntegerKeys>::lookup_early(Key, ValueOut&) const;
template Result<std::vector<roart::Entry>> Roart<ByteKeys>::judge_entries(Node&, bool) const;
template Result<std::uint64_t> Roart<ByteKeys>::judge_records(LeafArray&, const Path&, unsigned,
                                                              unsigned, unsigned,
                                                              std::vector<Key>*) const;
template Result<void> Roart<ByteKeys>::mark_children(Node&) const;
template bool Roart<ByteKeys>::touch(const Node&, Entry, Entry, const Path&) const;
template bool Roart<ByteKeys>::is_sane_child(const Node&, Entry) const;
template bool Roart<ByteKeys>::is_sane(Slot) const;
template Outcome Roart<ByteKeys>::lookup_early(Key, ValueOut&) const;

}  // namespace perdure
