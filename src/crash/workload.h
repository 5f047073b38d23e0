// What an explored run does: operations on a small universe of keys, made from a seed.
//
// Keys are numbers here, their place in the universe's order, and values are stamps, each used
// once. So each value that a recovered index holds can be traced to the operation that wrote it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "index/index.h"

namespace perdure::crash {

/// `load`: bulk load of the first `count` keys, key k with the value `stamp` + k. `push`, `pop`: of
/// queues, which do nothing else; the payload follows from the stamp, and the thread is its
/// producer.
enum class Action : std::uint8_t {
  create,
  insert,
  upsert,
  update,
  remove,
  lookup,
  scan,
  load,
  push,
  pop
};
inline constexpr const char* action_names[] = {"create", "insert", "upsert", "update", "remove",
                                               "lookup", "scan",   "load",   "push",   "pop"};
[[nodiscard]] const char* name_of(Action action) noexcept;

/// It is about one key.
[[nodiscard]] constexpr bool has_key(Action action) noexcept {
  return action >= Action::insert && action <= Action::lookup;
}

struct Operation {
  Action action = Action::lookup;
  std::uint8_t thread = 0;
  std::uint16_t key = 0;    ///< place in the universe
  std::uint16_t count = 0;  ///< of a scan or load
  std::uint64_t stamp = 0;  ///< of what is written
  std::uint16_t batch = 0;  ///< those with the same number are one call, where they are neighbours
                            ///< among their thread's; 0: a call of its own
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// Whether `next`, called next by the same thread, belongs to one call with `one`.
[[nodiscard]] constexpr bool are_one_call(const Operation& one, const Operation& next) {
  return one.batch != 0 && one.batch == next.batch && one.action == next.action;
}

/// What became of an operation.
struct Answer {
  bool returned = false;
  Outcome outcome = Outcome::ok;
  std::uint64_t stamp = 0;  ///< a lookup's or pop's
  struct Found {
    std::uint16_t key;
    std::uint64_t stamp;
  };
  std::vector<Found> found{};  ///< a scan's
  std::string wrong{};         ///< what no order explains: an unknown key or value
};

struct Program {
  KeyKind key_kind = KeyKind::integer;
  unsigned threads = 1;
  std::uint16_t keys = 32;            ///< size of the universe
  std::uint64_t universe = 1;         ///< seed of its keys
  std::vector<Operation> preload;     ///< by thread 0, before the explored part
  std::vector<Operation> operations;  ///< each thread does its own in this order
};

struct ProgramPlan {
  KeyKind key_kind = KeyKind::integer;
  unsigned threads = 1;
  unsigned operations = 24;
  std::uint16_t keys = 32;
  unsigned preload = 0;
  bool load = false;     ///< by one bulk load, which is explored, in place of insertions
  bool reuse = false;    ///< every other stretch empties a run of keys, the next fills another
  bool crowded = false;  ///< all insert at one place, in order, into what is full of other keys
  std::uint64_t seed = 1;
  bool ordered = true;
  bool replaces = true;  ///< else no operation changes the value of a key that is there
  bool queue = false;    ///< pushes and pops
  unsigned batch = 1;    ///< operations of one call, at most
};

/// Operations that change style from seed to seed: growing, shrinking, one hot neighbourhood that
/// splits and merges, updates in place, everything mixed.
[[nodiscard]] Program generate(const ProgramPlan& plan);

/// `program`, one thread's, with `first` of its operations as preload and the next `count` ones as
/// operations of all `threads`, some others among them: what happens at one of them happens beside
/// those. `replaces`: as of ProgramPlan.
[[nodiscard]] Program around(const Program& program, std::size_t first, std::size_t count,
                             unsigned threads, bool replaces = true);

/// Makes batches of 1 to `most` of `program`'s operations: those after the first of a batch, of its
/// thread, get its action. Scans and queues' operations have none.
void make_batches(Program& program, unsigned most);

/// `action`, or an insertion in place of what replaces values.
[[nodiscard]] constexpr Action without_replacing(Action action) noexcept {
  return action == Action::upsert || action == Action::update ? Action::insert : action;
}

inline constexpr std::uint64_t absent = ~std::uint64_t{0};
inline constexpr std::uint64_t bad_stamp = absent - 1;

/// A value whose length and content follow from its stamp, so that a torn mixture of two is
/// recognised, and the stamp of such a value.
[[nodiscard]] std::string text_of(std::uint64_t stamp);
[[nodiscard]] std::uint64_t stamp_in(std::string_view value);

/// A payload of a queue that takes `most_bytes` (16 or more), and the stamp of such a payload. One
/// stamp in a program has an empty payload; some are longer than a line, and some than four.
[[nodiscard]] std::string payload_of(std::uint64_t stamp, std::size_t most_bytes);
[[nodiscard]] std::uint64_t stamp_in_payload(std::string_view payload, std::size_t most_bytes);

/// In quotes, with what is not printable as "\\x00".
[[nodiscard]] std::string show_bytes(std::string_view bytes);

/// The universe in the vocabulary of a kind of key.
template <class Keys>
class Universe;

template <>
class Universe<IntegerKeys> {
 public:
  explicit Universe(const Program& program);
  [[nodiscard]] std::uint64_t key(std::uint16_t number) const { return keys_[number]; }
  /// The key's number, or -1. `guess`: it is this one, or one of the next, if one can tell.
  [[nodiscard]] int number_of(std::uint64_t key, std::size_t guess) const;
  [[nodiscard]] std::uint64_t lowest() const { return 0; }
  [[nodiscard]] std::uint64_t value(std::uint64_t stamp) const { return stamp; }
  [[nodiscard]] std::uint64_t stamp_of(std::uint64_t value) const { return value; }
  [[nodiscard]] std::string show(std::uint16_t number) const;

 private:
  std::vector<std::uint64_t> keys_;  ///< ascending
};

template <>
class Universe<SlotKeys> {
 public:
  explicit Universe(const Program& program) : keys_(program) {}
  [[nodiscard]] std::uint64_t key(std::uint16_t number) const { return keys_.key(number); }
  [[nodiscard]] int number_of(std::uint64_t key, std::size_t guess) const {
    return keys_.number_of(key, guess);
  }
  [[nodiscard]] std::uint64_t lowest() const { return 0; }
  [[nodiscard]] std::string value(std::uint64_t stamp) const { return text_of(stamp); }
  [[nodiscard]] std::uint64_t stamp_of(std::string_view value) const { return stamp_in(value); }
  [[nodiscard]] std::string show(std::uint16_t number) const { return keys_.show(number); }

 private:
  Universe<IntegerKeys> keys_;
};

template <>
class Universe<ByteKeys> {
 public:
  explicit Universe(const Program& program);
  [[nodiscard]] std::string_view key(std::uint16_t number) const { return keys_[number]; }
  [[nodiscard]] int number_of(std::string_view key, std::size_t guess) const;
  [[nodiscard]] std::string_view lowest() const { return {}; }
  [[nodiscard]] std::string value(std::uint64_t stamp) const { return text_of(stamp); }
  [[nodiscard]] std::uint64_t stamp_of(std::string_view value) const { return stamp_in(value); }
  [[nodiscard]] std::string show(std::uint16_t number) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace perdure::crash
