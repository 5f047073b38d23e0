// NewFile: a file of a pool, made so that nothing half-written is ever found at its path.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"
#include "pool/file.h"

namespace perdure {

/// A file that gets its name `path` by `publish`; if it is destroyed, or the process killed, before
/// that, nothing of it is left. What a process that was killed in `publish`, or
/// on a file system without unnamed files, left beside the path goes at the next creation
/// (pool/leftovers.h).
class NewFile {
 public:
  /// For the `part`th file of a pool. `overwrite` replaces only what `check_vacancy` allows
  /// (pool/occupant.h). Errors: exists, foreign (not a file), busy (another process uses the file
  /// to be replaced), out_of_space, usage, io.
  [[nodiscard]] static Result<NewFile> create(const std::string& path, std::uint64_t bytes,
                                              bool overwrite, unsigned part = 0);
  ~NewFile();
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;

  [[nodiscard]] const File& file() const noexcept { return file_; }
  /// The file to be replaced; none where there is none, or not any more.
  [[nodiscard]] const File& replaced() const noexcept { return replaced_; }
  /// True when the file system has no room for both the new file and the one to be replaced, which
  /// must then be withdrawn before `fill`.
  [[nodiscard]] bool needs_room() const noexcept { return needs_room_ && replaced_; }
  /// Takes the name of the file to be replaced away. Errors: io.
  [[nodiscard]] Result<void> withdraw_replaced();
  /// Allocates every block of the file; on tmpfs from huge pages, if `huge_pages`.
  /// Errors: out_of_space, io.
  [[nodiscard]] Result<void> fill(bool huge_pages) const;
  /// A path by which the file can be opened again before it has its name.
  [[nodiscard]] std::string interim_path() const;
  /// Gives the file its name, and releases it to the caller. Errors: exists, io.
  [[nodiscard]] Result<File> publish();

 private:
  NewFile() = default;
  [[nodiscard]] Result<void> open_in_memory();
  [[nodiscard]] Result<void> open_unnamed();
  [[nodiscard]] Result<void> hold_replaced(const std::string& path, std::uint64_t& reclaimable);

  std::string path_;
  std::uint64_t bytes_ = 0;
  std::string temporary_path_;  ///< empty: the file has no name at all (O_TMPFILE, memory)
  bool needs_room_ = false;
  File file_;
  File replaced_;  ///< locked
};

}  // namespace perdure
