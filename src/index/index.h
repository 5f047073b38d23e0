// What every index offers: the operations, their outcomes, and what a reader may rely on.
//
// Three kinds of records, three interfaces from one template:
//   IntegerIndex  8-byte unsigned keys in numeric order, 8-byte values.
//   SlotIndex     the same keys; values are byte strings of 0 .. max_slot_value_bytes, which lie in
//                 slots of slot_bytes.
//   BytesIndex    byte strings of 0 .. max_key_bytes, any content, in true byte order (memcmp, a
//                 prefix first); values are byte strings of 0 .. max_value_bytes.
//
// Every operation is thread-safe and durably linearizable: when it returns, its effect survives a
// power cut, and nothing is ever returned that a power cut could take back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/result.h"

namespace perdure {

inline constexpr std::size_t max_key_bytes = 2048;
inline constexpr std::size_t max_value_bytes = 64 * 1024;
inline constexpr std::size_t slot_bytes = 128;
inline constexpr std::size_t max_slot_value_bytes = slot_bytes - 8;

/// What an operation came to. Everything but `ok` leaves the index as it was.
enum class Outcome : std::uint8_t {
  ok,
  exists,        ///< insert: the key is present
  not_found,     ///< lookup, update, remove: the key is absent
  out_of_space,  ///< no room in the pool
  invalid,       ///< key or value longer than the limits above, or the pool is not yet ready
};
[[nodiscard]] const char* name_of(Outcome outcome) noexcept;

/// The kind of record, named after what tells it from the others.
enum class KeyKind : std::uint8_t { integer, bytes, slots };
[[nodiscard]] const char* name_of(KeyKind kind) noexcept;

struct IntegerRecord {
  std::uint64_t key;
  std::uint64_t value;
  friend bool operator==(const IntegerRecord&, const IntegerRecord&) = default;
};

struct SlotRecord {
  std::uint64_t key;
  std::string_view value;
  friend bool operator==(const SlotRecord&, const SlotRecord&) = default;
};

struct BytesRecord {
  std::string_view key;
  std::string_view value;
  friend bool operator==(const BytesRecord&, const BytesRecord&) = default;
};

/// Receives the records of a scan; reuse one, so that no scan allocates once it has grown.
class IntegerScan {
 public:
  void clear() noexcept { records_.clear(); }
  void append(std::uint64_t key, std::uint64_t value) { records_.push_back({key, value}); }
  /// So many more, to be filled by the caller.
  [[nodiscard]] std::span<IntegerRecord> extend(std::size_t count) {
    records_.resize(records_.size() + count);
    return std::span(records_).last(count);
  }
  void truncate(std::size_t size) { records_.resize(size); }
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] IntegerRecord operator[](std::size_t i) const noexcept { return records_[i]; }
  [[nodiscard]] std::span<IntegerRecord> records() noexcept { return records_; }
  void reserve(std::size_t records) { records_.reserve(records); }

 private:
  std::vector<IntegerRecord> records_;
};

class BytesScan {
 public:
  void clear() noexcept {
    entries_.clear();
    text_.clear();
  }
  void append(std::string_view key, std::string_view value) {
    entries_.push_back({text_.size(), key.size(), value.size()});
    text_.append(key);
    text_.append(value);
  }
  void truncate(std::size_t size) { entries_.resize(size); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Valid until the next append or clear.
  [[nodiscard]] BytesRecord operator[](std::size_t i) const noexcept {
    const Entry& entry = entries_[i];
    const std::string_view text = text_;
    return {text.substr(entry.at, entry.key_bytes),
            text.substr(entry.at + entry.key_bytes, entry.value_bytes)};
  }
  void reserve(std::size_t records) { entries_.reserve(records); }

 private:
  struct Entry {
    std::size_t at;
    std::size_t key_bytes;
    std::size_t value_bytes;
  };
  std::vector<Entry> entries_;
  std::string text_;
};

class SlotScan {
 public:
  void clear() noexcept {
    entries_.clear();
    text_.clear();
  }
  void append(std::uint64_t key, std::string_view value) {
    entries_.push_back({key, text_.size(), value.size()});
    text_.append(value);
  }
  void truncate(std::size_t size) { entries_.resize(size); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Valid until the next append or clear.
  [[nodiscard]] SlotRecord operator[](std::size_t i) const noexcept {
    const Entry& entry = entries_[i];
    return {entry.key, std::string_view(text_).substr(entry.at, entry.value_bytes)};
  }
  void reserve(std::size_t records) { entries_.reserve(records); }

 private:
  struct Entry {
    std::uint64_t key;
    std::size_t at;
    std::size_t value_bytes;
  };
  std::vector<Entry> entries_;
  std::string text_;
};

struct IntegerKeys {
  using Key = std::uint64_t;
  using Value = std::uint64_t;
  using ValueOut = std::uint64_t;
  using Record = IntegerRecord;
  using Scan = IntegerScan;
  static constexpr KeyKind kind = KeyKind::integer;
};

struct SlotKeys {
  using Key = std::uint64_t;
  using Value = std::string_view;
  using ValueOut = std::string;  ///< reuse one: no allocation once it has grown
  using Record = SlotRecord;
  using Scan = SlotScan;
  static constexpr KeyKind kind = KeyKind::slots;
};

struct ByteKeys {
  using Key = std::string_view;
  using Value = std::string_view;
  using ValueOut = std::string;  ///< reuse one: no allocation once it has grown
  using Record = BytesRecord;
  using Scan = BytesScan;
  static constexpr KeyKind kind = KeyKind::bytes;
};

template <class Keys>
inline constexpr bool has_text_keys = std::is_same_v<typename Keys::Key, std::string_view>;
template <class Keys>
inline constexpr bool has_text_values = std::is_same_v<typename Keys::Value, std::string_view>;
/// The most bytes a value may have.
template <class Keys>
inline constexpr std::size_t longest_value = Keys::kind == KeyKind::bytes   ? max_value_bytes
                                             : Keys::kind == KeyKind::slots ? max_slot_value_bytes
                                                                            : sizeof(std::uint64_t);

/// The part that does not depend on the kind of key.
class Index {
 public:
  Index() = default;
  virtual ~Index() = default;
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  [[nodiscard]] virtual KeyKind key_kind() const noexcept = 0;

  /// Records present. Exact when no operation runs. Cost may be linear.
  [[nodiscard]] virtual std::uint64_t size() const = 0;

  /// Records it can hold at most, where a fixed table limits that, and not the pool's room alone:
  /// one more is `out_of_space`.
  [[nodiscard]] virtual std::uint64_t most_records() const { return ~std::uint64_t{0}; }

  /// Walks the whole structure and checks every invariant its header numbers, and that exactly the
  /// blocks it reaches are live. No other operation may run. Errors: corrupt, naming the invariant.
  [[nodiscard]] virtual Result<void> check_invariants() const = 0;

  /// DRAM held beside the pool: inner nodes, lock tables, retired memory, in bytes as allocated.
  [[nodiscard]] virtual std::uint64_t dram_bytes() const = 0;

  /// True for a foreign wrapper that numbers its callers by `omp_get_thread_num()`: then the
  /// workers must be threads 0 .. n-1 of one OpenMP team.
  [[nodiscard]] virtual bool requires_openmp_workers() const noexcept { return false; }

  /// Lets background work finish and frees what is retired. No other operation may run.
  virtual void quiesce() {}
};

template <class Keys>
class OrderedIndex : public Index {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;

  [[nodiscard]] KeyKind key_kind() const noexcept final { return Keys::kind; }

  /// Adds an absent key. ok | exists | out_of_space | invalid.
  virtual Outcome insert(Key key, Value value) = 0;
  /// Adds or replaces. ok | out_of_space | invalid.
  virtual Outcome upsert(Key key, Value value) = 0;
  /// Replaces the value of a present key. ok | not_found | out_of_space | invalid.
  virtual Outcome update(Key key, Value value) = 0;
  /// Takes a key out. ok | not_found.
  virtual Outcome remove(Key key) = 0;
  /// Copies the value of `key` into `value`. ok | not_found (then `value` is untouched).
  virtual Outcome lookup(Key key, ValueOut& value) = 0;
  /// Appends to a cleared `out` the first `count` records with keys >= `from`, ascending; fewer
  /// only at the end of the index. Each record was present at some moment during the call; the
  /// records of one leaf belong to one moment. Returns out.size(). Unordered indexes return 0.
  virtual std::size_t scan(Key from, std::size_t count, Scan& out) = 0;
  /// Fills an empty index from records in strictly ascending key order, faster than inserts.
  /// Durable when it returns; a crash before leaves an empty index.
  /// Errors: usage (not empty, not ascending), out_of_space (then the index is empty again).
  virtual Result<void> bulk_load(std::span<const Record> records) = 0;

  /// Looks up keys.size() keys with their misses overlapped: values[i], outcomes[i] belong to
  /// keys[i]. The default does one after the other.
  virtual void lookup_batch(std::span<const Key> keys, std::span<ValueOut> values,
                            std::span<Outcome> outcomes) {
    for (std::size_t i = 0; i < keys.size(); ++i) outcomes[i] = lookup(keys[i], values[i]);
  }

  // Batches of changes: keys[i], values[i] and outcomes[i] belong to one operation, which does and
  // answers what the single one does.
  // B1  When the call returns, all of them are durable, and not necessarily any before.
  // B2  Each is all or nothing in a power cut, for itself: of a batch that was cut off, any set of
  //     operations may have taken effect, as long as B3 holds.
  // B3  Operations on one key take effect, and become durable, in the order of the batch. Those on
  //     different keys may do so in any order, and other threads may see each at once.
  // B4  One that fails does not keep the others from being done.
  // A caller gains where the index overlaps the misses and shares the fences of a batch. The
  // defaults do one operation after the other, and each is durable before the next begins.

  /// As insert. keys.size() == values.size() == outcomes.size(); also of the others.
  virtual void insert_batch(std::span<const Key> keys, std::span<const Value> values,
                            std::span<Outcome> outcomes) {
    for (std::size_t i = 0; i < keys.size(); ++i) outcomes[i] = insert(keys[i], values[i]);
  }
  /// As upsert.
  virtual void upsert_batch(std::span<const Key> keys, std::span<const Value> values,
                            std::span<Outcome> outcomes) {
    for (std::size_t i = 0; i < keys.size(); ++i) outcomes[i] = upsert(keys[i], values[i]);
  }
  /// As update.
  virtual void update_batch(std::span<const Key> keys, std::span<const Value> values,
                            std::span<Outcome> outcomes) {
    for (std::size_t i = 0; i < keys.size(); ++i) outcomes[i] = update(keys[i], values[i]);
  }
  /// As remove.
  virtual void remove_batch(std::span<const Key> keys, std::span<Outcome> outcomes) {
    for (std::size_t i = 0; i < keys.size(); ++i) outcomes[i] = remove(keys[i]);
  }
};

using IntegerIndex = OrderedIndex<IntegerKeys>;
using BytesIndex = OrderedIndex<ByteKeys>;
using SlotIndex = OrderedIndex<SlotKeys>;

}  // namespace perdure
