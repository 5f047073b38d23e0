// Checks every answer of a run, with any number of threads, against what the keys can hold.
//
// The driver brackets each operation:
//   Ticket ticket = verifier.begin(step);    // before
//   ... the operation; writes store ticket.value_word instead of the step's value ...
//   verifier.end(ticket, answer);            // after; or end_lookup(), end_scan()
//
// What a key may hold follows from the writes that began and ended. Writes of one key that overlap
// in time form a cluster, which the index may have applied in any order.
// V1  Every write of a key gets the next version at its begin, so a value names its write.
// V2  Once a write of a cluster has ended well, no value from before the cluster may be read: a
//     read that begins then must return a version from the cluster's first on.
// V3  A read returns no version begun after the read ended, none newer than the last that
//     succeeded if no write is under way, and no value of another key.
// V4  Presence: inserts and removes that succeed alternate, so after a cluster presence is known
//     unless an upsert and a remove met in it. An answer must agree with some moment of its
//     operation.
// V5  A scan is strictly ascending from its start key, holds at most what was asked, only keys
//     that may be present with values that may be read, and skips no key that was present
//     throughout; it is short only when no such key follows.
// With one thread clusters are single writes and every check is exact. With several, "skips no key"
// is checked for loaded keys during the run, and for all keys by FinalCheck once the threads rest.
//
// Memory: 24 B per id touched, in chunks of 65536 ids; 8 B more per loaded id if the mix has scans.
// A key takes at most 2^32 - 1 writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "workload/key_states.h"
#include "workload/keys.h"
#include "workload/mix.h"
#include "workload/stream.h"
#include "workload/workload.h"

namespace perdure::workload {

/// What an index answered, in words that do not depend on the index layer.
enum class Answer : std::uint8_t {
  done,       ///< found, inserted, replaced, removed
  exists,     ///< insert: the key is present
  not_found,  ///< lookup, update, remove: the key is absent
  refused,    ///< out of space or invalid: nothing happened
};

/// One operation under way.
struct Ticket {
  Operation operation = Operation::lookup;
  std::uint32_t version = 0;     ///< of a write
  std::uint32_t scan_count = 0;  ///< of a scan
  std::uint64_t id = 0;
  std::uint64_t value_word = 0;  ///< what a write must store; byte strings: ValueCodec::write(word)
  std::uint64_t key = 0;         ///< integer keys
  std::string_view key_text;     ///< byte-string keys: must stay valid until the end
  KeyState before;
  std::vector<KeyState> scanned;  ///< scans of several threads: the loaded keys from the start on
};

class Verifier {
 public:
  static constexpr std::size_t most_examples = 10;
  /// Each operation is one answer, and so is each record that a full scan returned, adopted or
  /// checked, each key that the final one should have and did not, and each further report. An
  /// answer is wrong once, however much is wrong with it: so `wrong` is never above `checked`.
  struct Summary {
    std::uint64_t checked = 0;          ///< answers
    std::uint64_t wrong = 0;            ///< wrong ones
    std::vector<std::string> examples;  ///< the first few, in words
  };

  /// The workload is validated and its key file open; it must outlive the verifier. Ids below
  /// `records` are present with version 0, as LoadStream leaves them.
  Verifier(const Workload& workload, unsigned threads);

  /// A reused pool holds what earlier runs left: forget_loaded(), then adopt() each record of a
  /// full scan, before the threads start. A record no run of this workload wrote counts as wrong.
  void forget_loaded();
  template <class Key, class Value>
  void adopt(Key key, Value value) {
    adopt_word(key, values_.word_of(value));
  }

  [[nodiscard]] Ticket begin(const IntegerStep& step);
  [[nodiscard]] Ticket begin(const SlotStep& step);
  [[nodiscard]] Ticket begin(const BytesStep& step);

  /// insert, upsert, update, remove. Returns whether the answer was right; so do the others.
  bool end(const Ticket& ticket, Answer answer);
  /// lookup, lookup_negative; `value` counts only if the answer is done.
  bool end_lookup(const Ticket& ticket, Answer answer, std::uint64_t value);
  bool end_lookup(const Ticket& ticket, Answer answer, std::string_view value);
  /// `scan` has size() and operator[](i) with members key and value, as the index layer's scans.
  template <class Scan>
  bool end_scan(const Ticket& ticket, const Scan& scan) {
    using Key = std::remove_cvref_t<decltype(scan[0].key)>;
    std::vector<Entry<Key>> entries;
    entries.reserve(scan.size());
    for (std::size_t i = 0; i < scan.size(); ++i)
      entries.push_back({scan[i].key, values_.word_of(scan[i].value)});
    return check_scan(ticket, std::span<const Entry<Key>>(entries));
  }

  /// For a driver that finds something wrong itself (an index's size(), say): one more answer, and
  /// a wrong one.
  void report(const std::string& what);

  [[nodiscard]] const ValueCodec& values() const noexcept { return values_; }
  [[nodiscard]] const KeySpace& keys() const noexcept { return keys_; }
  [[nodiscard]] Summary summary() const;

 private:
  friend class FinalCheck;
  template <class Key>
  struct Entry {
    Key key;
    std::optional<std::uint64_t> word;  // nothing: the value is torn
  };
  [[nodiscard]] bool is_tracked(std::uint64_t id) const noexcept {
    return id < KeyStates::capacity;
  }
  template <class Step>
  [[nodiscard]] Ticket begin_word(const Step& step);
  void begin_id(Ticket& ticket);
  void adopt_word(std::uint64_t key, std::optional<std::uint64_t> word);
  void adopt_word(std::string_view key, std::optional<std::uint64_t> word);
  [[nodiscard]] bool adopt_id(std::uint64_t id, std::uint64_t word);
  bool end_read(const Ticket& ticket, Answer answer, std::uint64_t word, bool decodes);
  bool check_scan(const Ticket& ticket, std::span<const Entry<std::uint64_t>> entries);
  bool check_scan(const Ticket& ticket, std::span<const Entry<std::string_view>> entries);
  template <class Key>
  bool check_entries(const Ticket& ticket, std::span<const Entry<Key>> entries);
  template <class Key>
  bool check_none_skipped(const Ticket& ticket, std::span<const Entry<Key>> entries);
  /// Nothing wrong with `word` as the value of `id` between the states: empty; else what is wrong.
  [[nodiscard]] std::string value_fault(std::uint64_t id, std::uint64_t word,
                                        const KeyState& before, const KeyState& after) const;
  bool wrong(const Ticket& ticket, const std::string& what);
  /// Counts an answer that was already counted as checked.
  void count_wrong(const std::string& what);
  void snapshot_scanned(Ticket& ticket);

  const Workload& workload_;
  unsigned threads_;
  KeySpace keys_;
  ValueCodec values_;
  KeyStates states_;
  std::vector<std::uint64_t> order_;     ///< mix with scans: loaded ids in key order
  std::set<std::uint64_t> fresh_words_;  ///< one thread: fresh keys that were inserted
  std::set<std::string, std::less<>> fresh_texts_;
  std::atomic<std::uint64_t> checked_{0};
  std::atomic<std::uint64_t> wrong_{0};
  mutable std::mutex example_lock_;
  std::vector<std::string> examples_;
};

/// The whole index against the whole model, once the threads rest: feed it a full ascending scan,
/// piece by piece, then finish(). Wrong records and missing keys are counted by the verifier.
class FinalCheck {
 public:
  explicit FinalCheck(Verifier& verifier);
  template <class Key, class Value>
  void accept(Key key, Value value) {
    accept_word(key, verifier_.values().word_of(value));
  }
  /// Returns whether all was right.
  bool finish();
  [[nodiscard]] std::uint64_t records() const noexcept { return records_; }

 private:
  void accept_word(std::uint64_t key, std::optional<std::uint64_t> word);
  void accept_word(std::string_view key, std::optional<std::uint64_t> word);
  void accept_record(std::optional<std::uint64_t> id, std::optional<std::uint64_t> word,
                     const std::string& name, const std::string& order_fault);
  /// What is wrong with the record; empty: nothing.
  [[nodiscard]] std::string fault_of(std::optional<std::uint64_t> id,
                                     std::optional<std::uint64_t> word);

  Verifier& verifier_;
  std::vector<bool> seen_;
  std::uint64_t records_ = 0;
  std::uint64_t last_word_ = 0;
  std::string last_text_;
  bool all_right_ = true;
};

}  // namespace perdure::workload
