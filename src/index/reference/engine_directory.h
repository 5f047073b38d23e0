// The directory of an on-disk reference engine: made by us, held by one process at a time, and
// taken away again when creation fails.
#pragma once

#include <string>

#include "core/result.h"

namespace perdure {

class EngineDirectory {
 public:
  /// Makes `path` (an empty directory may be there). Errors: exists, not_found, usage, io.
  [[nodiscard]] static Result<EngineDirectory> create(const std::string& path);
  /// Takes hold of an existing one. Errors: not_found, busy, io.
  [[nodiscard]] static Result<EngineDirectory> open(const std::string& path);

  EngineDirectory(EngineDirectory&& other) noexcept;
  EngineDirectory& operator=(EngineDirectory&&) = delete;
  /// Releases the lock; after `create` without `keep`, removes the directory and what is in it.
  ~EngineDirectory();

  /// Makes the directory and its entries durable: creation has succeeded. Errors: io.
  [[nodiscard]] Result<void> keep();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  EngineDirectory(std::string path, bool remove_at_end) noexcept
      : path_(std::move(path)), remove_at_end_(remove_at_end) {}
  [[nodiscard]] Result<void> lock();

  std::string path_;
  int lock_ = -1;
  bool remove_at_end_;
};

}  // namespace perdure
