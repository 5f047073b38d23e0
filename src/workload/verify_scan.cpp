// V5 of verify.h: what is wrong with the answer of one scan.
#include <algorithm>
#include <optional>

#include "core/assert.h"
#include "workload/verify.h"

namespace perdure::workload {
namespace {

/// The key of an id as the kind of index wants it; byte strings are written into a room of its own.
class KeyMaker {
 public:
  explicit KeyMaker(const KeySpace& keys) : keys_(keys), room_(keys.longest(), '\0') {}
  void make(std::uint64_t id, std::uint64_t& key) { key = keys_.word(id); }
  void make(std::uint64_t id, std::string_view& key) {
    key = {room_.data(), keys_.write(id, room_.data())};
  }

 private:
  const KeySpace& keys_;
  std::string room_;
};

std::uint64_t start_of(const Ticket& ticket, std::uint64_t) { return ticket.key; }
std::string_view start_of(const Ticket& ticket, std::string_view) { return ticket.key_text; }

/// The place in `order` of the first id whose key is at least `from`.
template <class Key>
std::size_t place_of(const std::vector<std::uint64_t>& order, const KeySpace& keys, Key from) {
  KeyMaker maker(keys);
  const auto at = std::partition_point(order.begin(), order.end(), [&](std::uint64_t id) {
    Key key;
    maker.make(id, key);
    return key < from;
  });
  return static_cast<std::size_t>(at - order.begin());
}

// How many more loaded keys than requested records have their state kept over a scan, because
// removed keys lie in between.
constexpr std::size_t kept_beyond = 64;

}  // namespace

void Verifier::snapshot_scanned(Ticket& ticket) {
  const std::size_t from = ticket.key_text.data() == nullptr
                               ? place_of(order_, keys_, ticket.key)
                               : place_of(order_, keys_, ticket.key_text);
  const std::size_t to = std::min(order_.size(), from + ticket.scan_count + kept_beyond);
  ticket.scanned.reserve(to - from);
  for (std::size_t i = from; i < to; ++i) ticket.scanned.push_back(states_.snapshot(order_[i]));
}

bool Verifier::check_scan(const Ticket& ticket, std::span<const Entry<std::uint64_t>> entries) {
  return check_entries(ticket, entries);
}

bool Verifier::check_scan(const Ticket& ticket, std::span<const Entry<std::string_view>> entries) {
  return check_entries(ticket, entries);
}

template <class Key>
bool Verifier::check_entries(const Ticket& ticket, std::span<const Entry<Key>> entries) {
  checked_.fetch_add(1, std::memory_order_relaxed);
  if (entries.size() > ticket.scan_count)
    return wrong(ticket, "expected at most " + std::to_string(ticket.scan_count) +
                             " records, got " + std::to_string(entries.size()));
  const std::size_t first_loaded = place_of(order_, keys_, start_of(ticket, Key{}));
  std::size_t loaded = first_loaded;
  KeyMaker maker(keys_);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry<Key>& entry = entries[i];
    const auto fault = [&](const std::string& what) {
      return wrong(ticket, "record " + std::to_string(i) + " of the scan: " + what);
    };
    if (i == 0 ? entry.key < start_of(ticket, Key{}) : entry.key <= entries[i - 1].key)
      return fault("expected an ascending key from the start key on");
    const std::optional<std::uint64_t> id = keys_.id_of(entry.key);
    if (!id || !is_tracked(*id)) return fault("expected no such key: it was never inserted");
    if (!entry.word) return fault("expected a whole value, got one of another length or torn");
    const KeyState after = states_.snapshot(*id);
    // One thread: nothing happened since the scan began. Several: loaded keys have their state of
    // then; of fresh keys only the ceiling is known.
    KeyState before = after;
    if (threads_ > 1) {
      before.floor = 0;
      before.flags |= KeyState::may_be_present;
      Key key{};
      for (; loaded < order_.size(); ++loaded) {
        maker.make(order_[loaded], key);
        if (key >= entry.key) break;
      }
      if (loaded < order_.size() && key == entry.key &&
          loaded - first_loaded < ticket.scanned.size())
        before = ticket.scanned[loaded - first_loaded];
      else if (after.adds == 0 && *id >= workload_.records && !after.possibly_present())
        return fault("expected no such key: it was never inserted");
    }
    if (!possibly_present_between(before, after, Operation::scan))
      return fault("expected no such key: it was removed or never inserted");
    const std::string wrong_value = value_fault(*id, *entry.word, before, after);
    if (!wrong_value.empty()) return fault(wrong_value);
  }
  return check_none_skipped(ticket, entries);
}

template <class Key>
bool Verifier::check_none_skipped(const Ticket& ticket, std::span<const Entry<Key>> entries) {
  const Key start = start_of(ticket, Key{});
  const bool whole = entries.size() == ticket.scan_count;
  std::size_t at = 0;
  KeyMaker maker(keys_);
  // Returns false at a key past the last record of a whole scan, which need not be there.
  const auto in_reach = [&](Key key) { return !whole || key <= entries.back().key; };
  const auto is_answered = [&](Key key) {
    while (at < entries.size() && entries[at].key < key) ++at;
    return at < entries.size() && entries[at].key == key;
  };
  const auto skipped = [&](std::uint64_t id) {
    return wrong(ticket, "the scan of " + std::to_string(ticket.scan_count) + " returned " +
                             std::to_string(entries.size()) + " records and skipped key id " +
                             std::to_string(id) + ", which is present");
  };
  const std::size_t first = place_of(order_, keys_, start);
  for (std::size_t i = first; i < order_.size(); ++i) {
    Key key;
    maker.make(order_[i], key);
    if (!in_reach(key)) break;
    if (is_answered(key)) continue;
    const KeyState after = states_.snapshot(order_[i]);
    bool certain = !after.possibly_absent();
    if (threads_ > 1) {
      // Absent for a moment, and back, since the scan began: only its own state of then can tell.
      // Past those kept, a loaded key that nothing ever tried to remove was present.
      const bool kept = i - first < ticket.scanned.size();
      certain = kept ? !possibly_absent_between(ticket.scanned[i - first], after, Operation::scan)
                     : after.removes == 0 && certain && after.adds == 0;
    }
    if (certain) return skipped(order_[i]);
  }
  at = 0;
  const auto check_fresh = [&](const auto& fresh) {
    for (auto next = fresh.lower_bound(start); next != fresh.end(); ++next) {
      const Key key = *next;
      if (!in_reach(key)) return true;
      if (is_answered(key)) continue;
      std::optional<std::uint64_t> id = keys_.id_of(key);
      PERDURE_ASSERT(id.has_value());
      if (!states_.snapshot(*id).possibly_absent()) return skipped(*id);
    }
    return true;
  };
  if constexpr (std::is_same_v<Key, std::uint64_t>)
    return check_fresh(fresh_words_);
  else
    return check_fresh(fresh_texts_);
}

}  // namespace perdure::workload
