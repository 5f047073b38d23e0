// perdure-native as tests run it: a process in a folder of its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace perdure::cli {

namespace fs = std::filesystem;

struct Finished {
  int code;
  std::string out;
  std::string err;
};

struct Bad {
  const char* arguments;
  const char* says;
};

inline std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// A folder of its own, in which the program runs.
class Cli : public ::testing::Test {
 protected:
  Cli() : folder_(fs::temp_directory_path() / ("perdure_cli_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~Cli() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string command(const std::string& arguments) const {
    return "cd '" + folder_.string() + "' && PMEM_IS_PMEM_FORCE=1 exec " PERDURE_NATIVE " " +
           arguments + " >stdout 2>stderr";
  }

  Finished run(const std::string& arguments) {
    const int status = std::system(command(arguments).c_str());
    Finished finished{WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(folder_ / "stdout"),
                      content(folder_ / "stderr")};
    fs::remove(folder_ / "stdout");
    fs::remove(folder_ / "stderr");
    return finished;
  }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }

  /// One line that says what is wrong, exit code 2, and nothing else.
  void expect_refused(const Bad& bad) {
    const Finished finished = run(bad.arguments);
    EXPECT_EQ(finished.code, 2) << bad.arguments << "\n" << finished.err;
    EXPECT_EQ(finished.out, "") << bad.arguments;
    EXPECT_TRUE(finished.err.starts_with("perdure: ")) << bad.arguments << "\n" << finished.err;
    EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << bad.arguments << "\n" << finished.err;
    EXPECT_THAT(finished.err, ::testing::HasSubstr(bad.says)) << bad.arguments;
    EXPECT_EQ(files(), 0U) << bad.arguments << " left a file";
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  fs::path folder_;
};

}  // namespace perdure::cli
