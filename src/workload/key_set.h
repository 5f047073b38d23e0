// Key sets: generated keys that stand for those of real indexes, as bijections between ids and
// keys.
//
//   snowflake    integers  time-ordered ids of a fleet of machines
//   clustered    integers  bursts: random bases, dense runs of 1 to 1024 after each
//   ipv4         integers  addresses, in few networks of very different size
//   kmer         integers  31 bases of DNA, two bits each
//   uuid         bytes     version 4, as 36 characters
//   uuid_binary  bytes     the same, as 16 bytes
//   kmer_text    bytes     32 bases of DNA, as the letters A, C, G and T
//   email        bytes     addresses whose domains are Zipf-distributed
//   url          bytes     addresses with long prefixes in common
//
// K1  Distinct ids have distinct keys, and id_of() is the inverse: nothing for what is no key.
// K2  Ids are present ones, [0, ids()), and absent ones, 2^63 + [0, absent_ids()). Absent keys lie
//     among the present ones and look like them.
// K3  A key follows from its id and the seed alone. No table grows with the number of keys.
// K4  Whatever decides the place of a key in the order is drawn with the shares that the class
//     documents, and the part that makes the key unique stands after it where the form has room.
//
// All words in them are the project's own; domains end in .test or .example (RFC 2606).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "workload/workload.h"

namespace perdure::workload {

/// Ids from here on are never inserted.
inline constexpr std::uint64_t first_absent_id = std::uint64_t{1} << 63;

class KeySet {
 public:
  KeySet() = default;
  virtual ~KeySet() = default;
  KeySet(const KeySet&) = delete;
  KeySet& operator=(const KeySet&) = delete;

  /// Present ids: at most 2^63.
  [[nodiscard]] virtual std::uint64_t ids() const noexcept { return first_absent_id; }
  [[nodiscard]] virtual std::uint64_t absent_ids() const noexcept { return ids(); }
};

class IntegerKeySet : public KeySet {
 public:
  [[nodiscard]] virtual std::uint64_t word(std::uint64_t id) const noexcept = 0;
  [[nodiscard]] virtual std::optional<std::uint64_t> id_of(std::uint64_t word) const noexcept = 0;
};

class TextKeySet : public KeySet {
 public:
  /// As KeySpace::write: at most longest() bytes.
  [[nodiscard]] virtual std::size_t write(std::uint64_t id, char* out) const noexcept = 0;
  [[nodiscard]] virtual std::optional<std::uint64_t> id_of(std::string_view key) const = 0;
  [[nodiscard]] virtual std::size_t longest() const noexcept = 0;
};

/// The set of a form, or nullptr for a form that is no such set.
[[nodiscard]] std::shared_ptr<const IntegerKeySet> make_integer_key_set(Keys::Form form,
                                                                        std::uint64_t seed);
[[nodiscard]] std::shared_ptr<const TextKeySet> make_text_key_set(Keys::Form form,
                                                                  std::uint64_t seed);

/// The number of an id among the present ones, or among the absent ones.
struct SplitId {
  std::uint64_t number;
  bool absent;

  explicit SplitId(std::uint64_t id) noexcept
      : number(id & (first_absent_id - 1)), absent((id & first_absent_id) != 0) {}
  SplitId(std::uint64_t number_, bool absent_) noexcept : number(number_), absent(absent_) {}
  [[nodiscard]] std::uint64_t id() const noexcept {
    return number | (absent ? first_absent_id : 0);
  }
};

/// Writes text piece by piece; the caller has the room.
class TextWriter {
 public:
  explicit TextWriter(char* out) noexcept : begin_(out), at_(out) {}
  void add(char c) noexcept { *at_++ = c; }
  void add(std::string_view text) noexcept {
    for (const char c : text) add(c);
  }
  void add_number(std::uint64_t number, unsigned least_digits = 1) noexcept {
    constexpr unsigned most_digits = 20;
    char digits[most_digits];
    unsigned count = 0;
    for (; number != 0 || count < least_digits; number /= 10)
      digits[count++] = static_cast<char>('0' + number % 10);
    while (count != 0) add(digits[--count]);
  }
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(at_ - begin_); }

 private:
  char* begin_;
  char* at_;
};

}  // namespace perdure::workload
