// AnswersFile: the file that --answers names. It is opened before the run, so that a wrong path
// fails at once, and gets its name when everything is written.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/output_file.h"
#include "driver/answers.h"

namespace perdure::driver {

class AnswersFile {
 public:
  /// An empty path: every call does nothing. Errors: those of OutputFile::open.
  Result<void> open(const std::string& path) {
    if (path.empty()) return {};
    auto file = OutputFile::open(path);
    if (!file) return file.error();
    file_.emplace(std::move(file).value());
    return {};
  }

  /// A record that an index holds at the end of the run.
  template <class Key, class Value>
  void add_record(const Key& key, const Value& value) {
    if (file_) append_record(records_, key, value);
  }

  /// Writes the answers of all `workers`, then the records. Errors: those of OutputFile.
  template <class Workers>
  Result<void> publish(const Workers& workers) {
    if (!file_) return {};
    Result<void> written;
    for (const auto& worker : workers)
      if (written) written = file_->write(worker->answers());
    if (written) written = file_->write(records_);
    return written ? file_->publish() : written;
  }

 private:
  std::optional<OutputFile> file_;
  std::string records_;
};

}  // namespace perdure::driver
