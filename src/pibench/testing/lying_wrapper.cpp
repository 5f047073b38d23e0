// A PiBench wrapper that misbehaves in the way that the environment variable LYING_WRAPPER names.
// It keeps 8-byte keys and values in a std::map behind a mutex and is right wherever it does not
// lie.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pibench/tree_api.h"

namespace {

std::uint64_t number(const char* raw) {
  std::uint64_t word = 0;
  std::memcpy(&word, raw, sizeof word);
  return word;
}

// In every way that there is to reach standard output.
void chat() {
  static bool said = false;
  if (std::exchange(said, true)) return;
  std::printf("chat of printf\n");
  std::fflush(stdout);
  std::cout << "chat of cout\n" << std::flush;
  static_cast<void>(!write(STDOUT_FILENO, "chat of write\n", 14));
  static_cast<void>(!std::system("echo chat of a child"));
  std::printf("chat that is still in the buffer at the end\n");
}

// What a call does that never returns to its caller.
void leave(const std::string& lie) {
  if (lie == "exit") std::exit(0);
  if (lie == "quick_exit") std::quick_exit(0);
  if (lie == "abort") std::abort();
  if (lie == "throw_unseen") std::thread([] { throw std::runtime_error("nobody's"); }).join();
  if (lie == "hang")
    for (;;) pause();
}

class LyingTree final : public tree_api {
 public:
  explicit LyingTree(std::string lie) : lie_(std::move(lie)) {}

  bool find(const char* key, std::size_t, char* value_out) override {
    const std::lock_guard lock(mutex_);
    if (lie_ == "chatty") chat();
    leave(lie_);
    if (lie_ == "throw") throw std::runtime_error("a wrapper's own trouble");
    const auto at = map_.find(number(key));
    if (at == map_.end()) return lie_ == "false_hit";
    const std::uint64_t value = at->second + (lie_ == "wrong_value" ? 1 : 0);
    std::memcpy(value_out, &value, sizeof value);
    if (lie_ == "overrun") value_out[sizeof value] = 'x';
    if (lie_ == "long_overrun") std::memset(value_out, 'x', 1400);
    if (lie_ == "underrun") value_out[-1] = 'x';
    return true;
  }

  bool insert(const char* key, std::size_t, const char* value, std::size_t) override {
    const std::lock_guard lock(mutex_);
    if (lie_.ends_with("_at_load")) leave(lie_.substr(0, lie_.size() - 8));
    if (lie_ == "false_success") return true;
    if (lie_ == "never") return false;
    return map_.emplace(number(key), number(value)).second;
  }

  bool update(const char* key, std::size_t, const char* value, std::size_t) override {
    const std::lock_guard lock(mutex_);
    const auto at = map_.find(number(key));
    if (at == map_.end()) return false;
    at->second = number(value);
    return true;
  }

  bool remove(const char* key, std::size_t) override {
    const std::lock_guard lock(mutex_);
    return map_.erase(number(key)) > 0;
  }

  int scan(const char* key, std::size_t, int scan_size, char*& values_out) override {
    const std::lock_guard lock(mutex_);
    thread_local std::vector<std::pair<std::uint64_t, std::uint64_t>> records;
    records.clear();
    for (auto at = map_.lower_bound(number(key)); at != map_.end(); ++at) {
      if (static_cast<int>(records.size()) == scan_size) break;
      records.emplace_back(at->first, at->second);
    }
    if (lie_ == "short_scan" && !records.empty()) records.pop_back();
    if (lie_ == "unsorted_scan" && records.size() > 1) std::swap(records[0], records[1]);
    if (lie_ == "no_scan") return 0;
    if (lie_ != "null_scan") values_out = reinterpret_cast<char*>(records.data());
    if (lie_ == "negative_scan") return -5;
    if (lie_ == "long_scan") {
      records.resize(static_cast<std::size_t>(scan_size) + 1);
      values_out = reinterpret_cast<char*>(records.data());
      return scan_size + 1;
    }
    return static_cast<int>(records.size());
  }

 private:
  std::string lie_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> map_;
};

// Forks whose options are longer read on after ours and find what the host left there.
bool finds_zeroes_behind(const tree_options_t& options) {
  const volatile char* const behind = reinterpret_cast<const char*>(&options) + sizeof options;
  for (int i = 0; i < 192; ++i)
    if (behind[i] != 0) return false;
  return true;
}

}  // namespace

extern "C" tree_api* create_tree(const tree_options_t& options) {
  const char* const set = std::getenv("LYING_WRAPPER");
  const std::string lie = set == nullptr ? "" : set;
  if (lie == "null_tree") return nullptr;
  if (lie == "chatty") std::printf("chat while it is made\n");
  // As PACTree's does: files in a directory that must be there.
  if (lie == "wants_directory" && !std::ofstream(options.pool_path + "/data").good())
    return nullptr;
  if (lie.ends_with("_at_create")) leave(lie.substr(0, lie.size() - 10));
  if (lie == "throw_at_create") throw std::runtime_error("two\nlines");
  if (lie == "longer_options" && !finds_zeroes_behind(options)) return nullptr;
  return new LyingTree(lie);
}
