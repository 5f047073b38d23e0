// A well-behaved PiBench wrapper for the tests: std::map behind a mutex. Keys of 8 bytes are
// native-endian numbers, others compare as bytes. Like the published wrappers it keeps state for
// each OpenMP thread number, and it throws when a caller has none.
#include <omp.h>

#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "pibench/tree_api.h"

namespace {

struct RawLess {
  bool operator()(const std::string& a, const std::string& b) const {
    if (a.size() != 8 || b.size() != 8) return a < b;
    unsigned long long x = 0;
    unsigned long long y = 0;
    std::memcpy(&x, a.data(), 8);
    std::memcpy(&y, b.data(), 8);
    return x < y;
  }
};

class HonestTree final : public tree_api {
 public:
  explicit HonestTree(const tree_options_t& options)
      : options_(options), results_(options.num_threads) {}

  bool find(const char* key, std::size_t key_size, char* value_out) override {
    check_thread();
    const std::lock_guard lock(mutex_);
    const auto at = map_.find(std::string(key, key_size));
    if (at == map_.end()) return false;
    std::memcpy(value_out, at->second.data(), at->second.size());
    return true;
  }

  bool insert(const char* key, std::size_t key_size, const char* value,
              std::size_t value_size) override {
    check_thread();
    const std::lock_guard lock(mutex_);
    return map_.emplace(std::string(key, key_size), std::string(value, value_size)).second;
  }

  bool update(const char* key, std::size_t key_size, const char* value,
              std::size_t value_size) override {
    check_thread();
    const std::lock_guard lock(mutex_);
    const auto at = map_.find(std::string(key, key_size));
    if (at == map_.end()) return false;
    at->second.assign(value, value_size);
    return true;
  }

  bool remove(const char* key, std::size_t key_size) override {
    check_thread();
    const std::lock_guard lock(mutex_);
    return map_.erase(std::string(key, key_size)) > 0;
  }

  int scan(const char* key, std::size_t key_size, int scan_size, char*& values_out) override {
    check_thread();
    std::string& result = results_.at(static_cast<std::size_t>(omp_get_thread_num()));
    const std::lock_guard lock(mutex_);
    result.clear();
    int found = 0;
    for (auto at = map_.lower_bound(std::string(key, key_size));
         at != map_.end() && found < scan_size; ++at, ++found)
      result += at->first + at->second;
    values_out = result.data();
    return found;
  }

 private:
  void check_thread() const {
    if (static_cast<std::size_t>(omp_get_thread_num()) >= options_.num_threads)
      throw std::runtime_error("not an OpenMP worker");
  }

  tree_options_t options_;
  std::mutex mutex_;
  std::map<std::string, std::string, RawLess> map_;
  std::vector<std::string> results_;
};

}  // namespace

extern "C" tree_api* create_tree(const tree_options_t& options) { return new HonestTree(options); }
