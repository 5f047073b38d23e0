// Maps ids to keys and back, and encodes in each value its id and version.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "workload/key_set.h"
#include "workload/workload.h"

namespace perdure::workload {

/// What KeySpace::id_of says of an integer that is the key of no id of a key set: no index holds
/// it.
inline constexpr std::uint64_t no_id = ~std::uint64_t{0};

/// The lines of a key file: one key per line, LF or CRLF, the last line with or without an end. An
/// empty line is the empty key.
class KeyFile {
 public:
  /// Errors: not_found, io, bad_input (empty file, duplicate key, key over 2048 B: by line; and as
  /// of check_key_text, workload/key_text.h).
  [[nodiscard]] static Result<std::shared_ptr<const KeyFile>> open(
      const std::filesystem::path& path);
  /// The same from text; `name` is what errors call it.
  [[nodiscard]] static Result<std::shared_ptr<const KeyFile>> parse(std::string text,
                                                                    std::string_view name);

  [[nodiscard]] std::uint64_t size() const noexcept { return start_.size(); }
  [[nodiscard]] std::string_view operator[](std::uint64_t line) const noexcept {
    return std::string_view(text_).substr(start_[line], length_[line]);
  }
  [[nodiscard]] std::optional<std::uint64_t> find(std::string_view key) const noexcept;
  [[nodiscard]] std::size_t longest() const noexcept { return longest_; }

 private:
  std::string text_;
  std::vector<std::uint64_t> start_;
  std::vector<std::uint16_t> length_;
  std::vector<std::uint64_t> sorted_;  ///< lines in key order
  std::size_t longest_ = 0;
};

/// The keys of a file of integers: decimal ones as the lines above, none empty, or a SOSD file.
class IntegerFile {
 public:
  /// Errors: as of KeyFile; bad_input also for a line that is no integer of 64 bits without sign.
  [[nodiscard]] static Result<std::shared_ptr<const IntegerFile>> open(
      const std::filesystem::path& path);
  [[nodiscard]] static Result<std::shared_ptr<const IntegerFile>> parse(std::string_view content,
                                                                        std::string_view name);

  [[nodiscard]] std::uint64_t size() const noexcept { return keys_.size(); }
  [[nodiscard]] std::uint64_t operator[](std::uint64_t line) const noexcept { return keys_[line]; }
  [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t key) const noexcept;

 private:
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> sorted_;  ///< lines in key order
};

/// For keys from a file: reads it and sets keys.file_lines or keys.file_integers; else nothing.
/// records == 0 means every line. Errors: not_found, bad_input (a duplicate or too long key, by
/// line; too few lines for the records).
[[nodiscard]] Result<void> open_key_file(Workload& workload);

/// The bijection between ids and keys of a workload. Copies are cheap.
class KeySpace {
 public:
  /// A key file must be open (open_key_file).
  explicit KeySpace(const Workload& workload);

  /// Integer forms: the key of `id`.
  [[nodiscard]] std::uint64_t word(std::uint64_t id) const noexcept;
  /// Integer forms: the id of a key. Of mixed, golden and sequential every word is the key of some
  /// id; integers that are not in the file have ids from 2^63, and those that are not in a key set
  /// have no_id.
  [[nodiscard]] std::uint64_t id_of(std::uint64_t word) const noexcept;

  /// Byte forms: writes the key of `id` to `out`, which has room for longest() bytes, and returns
  /// its length. For lines of a key file, view() avoids the copy.
  [[nodiscard]] std::size_t write(std::uint64_t id, char* out) const noexcept;
  /// file: the line itself; nothing for other forms and absent ids.
  [[nodiscard]] std::optional<std::string_view> view(std::uint64_t id) const noexcept;
  /// Byte forms: the id whose key this is, or nothing if no id has it.
  [[nodiscard]] std::optional<std::uint64_t> id_of(std::string_view key) const;

  /// The longest key in bytes (8 for integer forms).
  [[nodiscard]] std::size_t longest() const noexcept { return longest_; }
  /// Ids below this have keys: 2^63, what a key set has, or the number of lines of a key file.
  [[nodiscard]] std::uint64_t ids() const noexcept { return ids_; }
  /// An id in [2^63, 2^64) whose key no id below 2^63 has, from 64 random bits.
  [[nodiscard]] std::uint64_t absent_id(std::uint64_t random) const noexcept;

 private:
  [[nodiscard]] std::uint64_t mixed(std::uint64_t id) const noexcept;
  [[nodiscard]] std::uint64_t unmixed(std::uint64_t word) const noexcept;
  [[nodiscard]] std::size_t random_length(std::uint64_t id) const noexcept;

  Keys::Form form_;
  std::uint64_t key0_;
  std::uint64_t key1_;
  std::string prefix_;
  std::size_t min_bytes_;
  std::size_t max_bytes_;
  /// Geometric lengths: bit i of what exceeds min_bytes is set with probability bit_share_[i] of
  /// 2^64, independently of the other bits.
  std::array<std::uint64_t, 11> bit_share_{};
  bool geometric_;
  std::size_t longest_;
  std::uint64_t ids_;
  std::uint64_t absent_ids_;  ///< how many ids from 2^63 absent_id() chooses from
  std::shared_ptr<const IntegerKeySet> integer_set_;  ///< forms of workload/key_set.h
  std::shared_ptr<const TextKeySet> text_set_;
  std::shared_ptr<const KeyFile> file_;
  std::shared_ptr<const IntegerFile> integers_;
};

/// Values that verification can check: the word of (id, version) is the version, hidden under a
/// 64-bit pad that belongs to the id; a byte-string value is that word and text that follows from
/// it.
class ValueCodec {
 public:
  explicit ValueCodec(const Workload& workload) noexcept;

  [[nodiscard]] std::uint64_t word(std::uint64_t id, std::uint64_t version) const noexcept {
    return version ^ pad(id);
  }
  /// The version in a word of `id`. A word of another id, or a torn one, decodes to a number far
  /// from any version in use.
  [[nodiscard]] std::uint64_t version(std::uint64_t id, std::uint64_t word) const noexcept {
    return word ^ pad(id);
  }

  /// Length of every byte-string value.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Writes the bytes() bytes of the value with this word.
  void write(std::uint64_t word, char* out) const noexcept;
  /// The word of a byte-string value, or nothing if its length or any byte is wrong.
  [[nodiscard]] std::optional<std::uint64_t> word_of(std::string_view value) const noexcept;
  /// A value of 8 bytes is its word.
  [[nodiscard]] std::optional<std::uint64_t> word_of(std::uint64_t value) const noexcept {
    return value;
  }

 private:
  [[nodiscard]] std::uint64_t pad(std::uint64_t id) const noexcept;
  std::uint64_t key_;
  std::size_t bytes_;
};

}  // namespace perdure::workload
