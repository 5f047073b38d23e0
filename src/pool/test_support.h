// What the tests of this folder share: a folder of their own, options, and children to be killed.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pool/pool.h"

namespace perdure {

/// A fresh folder, removed with all that is in it. On tmpfs where there is one, unless told where.
class TestFolder {
 public:
  TestFolder() : TestFolder(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") {}
  explicit TestFolder(const std::string& parent) {
    std::string name = parent + "/perdure_test.XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  [[nodiscard]] std::string file(const std::string& name = "pool") const {
    return path_ + "/" + name;
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

inline PoolOptions small_pool(const std::string& path, HeapKind heap = HeapKind::slab) {
  PoolOptions options;
  options.path = path;
  options.heap = heap;
  options.bytes = Pool::min_pool_bytes;
  options.huge_pages = false;
  options.prefault = false;
  return options;
}

inline std::unique_ptr<Pool> must(Result<std::unique_ptr<Pool>> pool) {
  if (pool.ok()) return std::move(*pool);
  ADD_FAILURE() << pool.error().line();
  std::exit(1);  // every later line would crash without a pool
}

/// Runs `body` in a child process; returns its wait status.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

[[nodiscard]] inline bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

inline std::string heap_name(const testing::TestParamInfo<HeapKind>& info) {
  return name_of(info.param);
}

}  // namespace perdure
