// OutputFile: a result on its way to a file. It is opened before the work, so that a wrong path
// fails at once, and gets its name only when all of it is written: a process that is stopped before
// leaves the old file, or none.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"

namespace perdure {

class OutputFile {
 public:
  /// An existing file stays unchanged until `publish`; a link is followed; a device or pipe, such
  /// as /dev/stdout, is written to directly. Errors: usage (no path), exists (a directory),
  /// not_found (no such folder), io.
  [[nodiscard]] static Result<OutputFile> open(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  /// Writes `text` at the end. Errors: io, out_of_space.
  [[nodiscard]] Result<void> write(std::string_view text);
  /// Renames the written file to its final name. Errors: io, out_of_space.
  [[nodiscard]] Result<void> publish();

 private:
  OutputFile() = default;
  [[nodiscard]] Result<void> open_beside();
  [[nodiscard]] Error error(int number) const;

  std::string given_;   ///< as errors name it
  std::string path_;    ///< what a link points to
  std::string beside_;  ///< the name until then; empty: none, or written directly
  bool direct_ = false;
  bool replaces_ = false;
  unsigned mode_ = 0;  ///< of the file to be replaced
  int descriptor_ = -1;
};

}  // namespace perdure
