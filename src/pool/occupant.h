// Occupant: what stands at a path where a pool is to be made, which decides what a run may replace.
//
// O1  only what perdure made is ever replaced or removed, and only with the caller's consent: pools
//     (also damaged in part, or of a newer layout), libpmemobj's of our layout, and empty files.
// O2  every refusal names the remedy that works for that very thing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/result.h"
#include "pool/file.h"

namespace perdure {

enum class Occupant : std::uint8_t {
  nothing,
  pool,        ///< ours, whole or damaged in part
  empty_file,  ///< nothing is lost with it
  other_file,  ///< somebody's
  folder,
  pm_device,     ///< a devdax device
  other_device,  ///< a terminal, /dev/null, a disk
  channel,       ///< a pipe or a socket
  broken_link,
};

/// Looks without changing anything, and never blocks. Errors: io (it cannot be looked at).
[[nodiscard]] Result<Occupant> occupant_of(const std::string& path);

/// Whose an open regular file is: pool, empty_file or other_file. Judged by the magic numbers, of
/// which one may be damaged where the rest of the structure says that it is ours.
[[nodiscard]] Occupant occupant_of(const File& file);

/// Checks that a file of a pool, its `part`th, may be made at `path`: nothing is there, or it is a
/// device of persistent memory, or `overwrite` and O1 allow to replace it. A part is replaced by a
/// part of the same number only: another would be torn out of a pool that nobody named.
/// Errors: exists, foreign, io.
[[nodiscard]] Result<void> check_vacancy(const std::string& path, unsigned part, bool overwrite);

/// The refusal to make a file of a pool where `occupant` is.
[[nodiscard]] Error occupied(const std::string& path, Occupant occupant, bool overwrite);

/// Identifies a file that was made, even if another gets its name later.
struct MadeFile {
  std::string path;  ///< links resolved: what is removed is the file, never a link to it
  std::uint64_t device = 0;
  std::uint64_t number = 0;  ///< of the inode

  /// Empty where no regular file stands.
  [[nodiscard]] static std::optional<MadeFile> at(const std::string& path);
  /// True while the path still leads to it. May be called by a signal handler.
  [[nodiscard]] bool is_there() const noexcept;
  /// Takes the name away, if it is still this file's.
  void remove() const noexcept;
};

}  // namespace perdure
