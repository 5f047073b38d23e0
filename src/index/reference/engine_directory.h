// The directory of an on-disk reference engine: made by us, held by one process at a time, and
// taken away again when creation fails.
//
// F1  an opening creates nothing: a directory without our mark (engine_files.h) is not touched.
// F2  only a directory with our mark is ever emptied, by its engine's name only of the files that
//     this engine writes, and only when it holds nothing else: that is judged before any file goes.
#pragma once

#include <string>

#include "core/result.h"
#include "pool/file.h"

namespace perdure {

class EngineDirectory {
 public:
  /// Makes `path` for `engine` (an empty directory may be there). Errors: exists, not_found, usage,
  /// io.
  [[nodiscard]] static Result<EngineDirectory> create(const std::string& path, const char* engine);
  /// Takes hold of an existing one. Errors: not_found, busy, foreign, io.
  [[nodiscard]] static Result<EngineDirectory> open(const std::string& path, const char* engine);

  /// Checks that `create` can make `path`, and with `overwrite` makes room for it: empties a
  /// directory of ours (F2), removes a pool of ours or an empty file.
  /// Errors: exists, busy, foreign, io.
  [[nodiscard]] static Result<void> make_room(const std::string& path, bool overwrite);
  /// Takes back what a failed run made at `path`, and no more (F2); the directory itself, too, if
  /// `with_directory`.
  static void take_back(const std::string& path, bool with_directory);

  EngineDirectory(EngineDirectory&& other) noexcept;
  EngineDirectory& operator=(EngineDirectory&&) = delete;
  /// Releases the lock; after `create` without `keep`, removes what was made.
  ~EngineDirectory();

  /// Makes the directory and its entries durable: creation has succeeded. Errors: io.
  [[nodiscard]] Result<void> keep();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  EngineDirectory(std::string path, const char* engine) noexcept
      : path_(std::move(path)), engine_(engine) {}
  [[nodiscard]] Result<void> write_mark();
  [[nodiscard]] Result<void> read_mark();

  std::string path_;
  const char* engine_;
  File mark_;  ///< locked
  bool remove_at_end_ = false;
  bool made_directory_ = false;
};

}  // namespace perdure
