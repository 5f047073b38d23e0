// Files of a made-up machine below a folder of their own, for what reads /proc and /sys.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace perdure {

class FakeSystem : public ::testing::Test {
 protected:
  FakeSystem()
      : root_(std::filesystem::temp_directory_path() /
              ("perdure_system_" + std::to_string(getpid()))) {}
  ~FakeSystem() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::filesystem::path root_;
};

}  // namespace perdure
