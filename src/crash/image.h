// Image: the scratch copy of a pool on which crash states are made, recovered and taken back.
//
// I1  outside `mark` .. `undo` the memory is the floor: what is on media for certain.
// I2  every change in between was announced by `touch` before it was made, by us or by the write
//     hooks, so taking back what was touched restores the whole image. `verify` compares it with a
//     second copy that nobody else writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crash/persistency.h"

namespace perdure::crash {

/// Page-aligned memory at an address of its own.
class Memory {
 public:
  /// `as_file`: others may open it by its path.
  explicit Memory(std::size_t bytes, bool as_file = false);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::span<std::byte> span() const noexcept { return {base_, bytes_}; }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  std::byte* base_;
  std::size_t bytes_;
  int file_ = -1;
};

class Image final : public Persistency::Media {
 public:
  explicit Image(std::size_t bytes, bool as_file = false);

  /// Takes over a whole content as the floor.
  void load(const std::byte* content);

  [[nodiscard]] const Memory& memory() const noexcept { return memory_; }
  [[nodiscard]] std::byte* base() const noexcept { return memory_.base(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] std::uint32_t lines() const noexcept {
    return static_cast<std::uint32_t>(bytes() / line_bytes);
  }

  [[nodiscard]] LineContent read(LineNumber line) const override;
  /// Moves the floor (no mark open) or a change on top of it.
  void write(LineNumber line, const LineContent& content) override;

  /// Digest of the floor.
  [[nodiscard]] std::uint64_t floor_digest() const noexcept { return digest_; }

  /// Opens a level of changes; `undo` takes back everything since the last `mark`.
  void mark();
  void undo();
  /// Announces that bytes [at, at + bytes) are about to change.
  void touch(std::uint64_t at, std::size_t bytes);
  /// Takes over what a copy of the image has become. Nothing to do when `copy` is the image.
  void take(const std::byte* copy);

  /// At the floor: offset of the first byte that changed unannounced, or -1.
  [[nodiscard]] std::int64_t verify() const;

 private:
  struct Saved {
    LineNumber line;
    std::uint32_t epoch;  ///< what the line's stamp was before
    LineContent content;
  };
  struct Mark {
    std::size_t first;
    std::uint32_t epoch;
  };

  void save(LineNumber line);

  Memory memory_;
  Memory floor_;
  std::vector<std::uint32_t> stamp_;  ///< by line: the mark that saved it last
  std::vector<Saved> saved_;
  std::vector<Mark> marks_;
  std::uint32_t epoch_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace perdure::crash
