// OutputFile: a result on its way to a file. It is opened before the work, so that a wrong path
// fails at once, and takes its name only when all of it is written: whoever is stopped meanwhile
// leaves the old file, or none.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"

namespace perdure {

class OutputFile {
 public:
  /// A file that is there stays as it is until `publish`; a link is followed; what is no file, such
  /// as /dev/stdout or a pipe, is written to directly. Errors: usage (no path), exists (a
  /// directory), not_found (no such folder), io.
  [[nodiscard]] static Result<OutputFile> open(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  /// Writes `text` at the end. Errors: io, out_of_space.
  [[nodiscard]] Result<void> write(std::string_view text);
  /// Gives what was written its name. Errors: io, out_of_space.
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
