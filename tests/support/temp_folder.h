// A folder for one test's files, gone when the test ends.
#pragma once

#include <string>

namespace perdure::testing {

/// Makes a folder under PERDURE_TEST_FOLDER, else /dev/shm, else the system's temporary folder.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace perdure::testing
