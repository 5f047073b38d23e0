// A tiny host with PiBench's habits: it loads a wrapper with dlopen, calls it from OpenMP threads,
// and reuses the buffers it passes. Unlike PiBench it checks every answer.
//
//   host LIBRARY THREADS RECORDS KEY_SIZE VALUE_SIZE [POOL_PATH POOL_SIZE]
//
// Exit code: 0 every answer was right, 1 some were wrong (each kind is counted on stdout), 2 no
// tree.
#include <dlfcn.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pibench/tree_api.h"

namespace {

constexpr int scan_records = 100;

struct Buffers {
  std::string key;
  std::string value;
  std::string found;
};

class Host {
 public:
  Host(tree_api& tree, const tree_options_t& options, std::uint64_t records)
      : tree_(tree), options_(options), records_(records) {}

  [[nodiscard]] bool run() {
    for_each("insert", [this](Buffers& buffers, std::uint64_t id) {
      set(buffers, id, 0);
      return tree_.insert(buffers.key.data(), buffers.key.size(), buffers.value.data(),
                          buffers.value.size());
    });
    for_each("insert of a present key", [this](Buffers& buffers, std::uint64_t id) {
      set(buffers, id, 9);
      return !tree_.insert(buffers.key.data(), buffers.key.size(), buffers.value.data(),
                           buffers.value.size());
    });
    for_each("find", [this](Buffers& buffers, std::uint64_t id) { return finds(buffers, id, 0); });
    for_each("find of an absent key", [this](Buffers& buffers, std::uint64_t id) {
      set(buffers, records_ + id, 0);
      return !tree_.find(buffers.key.data(), buffers.key.size(), buffers.found.data());
    });
    for_each("update", [this](Buffers& buffers, std::uint64_t id) {
      set(buffers, id, 1);
      return tree_.update(buffers.key.data(), buffers.key.size(), buffers.value.data(),
                          buffers.value.size()) &&
             finds(buffers, id, 1);
    });
    for_each("scan", [this](Buffers& buffers, std::uint64_t id) { return scans(buffers, id, 1); });
    for_each("remove", [this](Buffers& buffers, std::uint64_t id) {
      if (id % 2 == 0) return true;
      set(buffers, id, 0);
      return tree_.remove(buffers.key.data(), buffers.key.size()) &&
             !tree_.remove(buffers.key.data(), buffers.key.size());
    });
    for_each("scan after removes",
             [this](Buffers& buffers, std::uint64_t id) { return scans(buffers, id, 2); });
    return wrong_ == 0;
  }

 private:
  template <class Check>
  void for_each(const char* what, Check&& check) {
    std::atomic<std::uint64_t> wrong{0};
#pragma omp parallel num_threads(static_cast<int>(options_.num_threads))
    {
      Buffers buffers;
      buffers.found.resize(options_.value_size);
#pragma omp for schedule(static)
      for (std::uint64_t id = 0; id < records_; ++id)
        if (!check(buffers, id)) wrong.fetch_add(1);
    }
    std::printf("%s: %llu of %llu wrong\n", what, static_cast<unsigned long long>(wrong.load()),
                static_cast<unsigned long long>(records_));
    wrong_ += wrong.load();
  }

  // 8-byte keys are scattered numbers across the sign boundary; others sort like their ids.
  [[nodiscard]] std::string key_of(std::uint64_t id) const {
    std::string key(options_.key_size, '0');
    if (options_.key_size == 8) {
      const std::uint64_t number = id * 0x9e3779b97f4a7c15ULL;
      std::memcpy(key.data(), &number, sizeof number);
      return key;
    }
    for (std::size_t i = key.size(); i-- > 0; id /= 10) key[i] = static_cast<char>('0' + id % 10);
    return key;
  }
  [[nodiscard]] std::string value_of(std::string_view key, unsigned round) const {
    std::string value(options_.value_size, static_cast<char>('a' + round));
    std::copy_n(key.begin(), std::min(key.size(), value.size()), value.begin());
    value.back() = static_cast<char>('a' + round);
    return value;
  }
  void set(Buffers& buffers, std::uint64_t id, unsigned round) const {
    buffers.key = key_of(id);
    buffers.value = value_of(buffers.key, round);
  }

  [[nodiscard]] bool finds(Buffers& buffers, std::uint64_t id, unsigned round) {
    set(buffers, id, round);
    return tree_.find(buffers.key.data(), buffers.key.size(), buffers.found.data()) &&
           buffers.found == buffers.value;
  }

  // `step` 2: only even ids are left.
  [[nodiscard]] bool scans(Buffers& buffers, std::uint64_t id, std::uint64_t step) {
    if (id % 64 != 0) return true;
    set(buffers, id, 1);
    char* records = nullptr;
    const int count = tree_.scan(buffers.key.data(), buffers.key.size(), scan_records, records);
    if (count < 1 || records == nullptr) return false;
    const std::size_t record_bytes = options_.key_size + options_.value_size;
    std::string_view before;
    for (int i = 0; i < count; ++i) {
      const std::string_view record(records + static_cast<std::size_t>(i) * record_bytes,
                                    record_bytes);
      const std::string_view key = record.substr(0, options_.key_size);
      if (i == 0 ? key != buffers.key : !is_less(before, key)) return false;
      if (record.substr(options_.key_size) != value_of(key, 1)) return false;
      before = key;
    }
    if (options_.key_size == 8) return count == scan_records || id_rank_is_last(buffers.key, step);
    const std::uint64_t left = (records_ - id + step - 1) / step;
    return static_cast<std::uint64_t>(count) == std::min<std::uint64_t>(left, scan_records);
  }

  // A scan of scattered keys may be short only if fewer than that many keys are not below its
  // start.
  [[nodiscard]] bool id_rank_is_last(std::string_view start, std::uint64_t step) const {
    int not_below = 0;
    for (std::uint64_t id = 0; id < records_; id += step)
      not_below += is_less(key_of(id), start) ? 0 : 1;
    return not_below < scan_records;
  }

  [[nodiscard]] bool is_less(std::string_view a, std::string_view b) const {
    if (options_.key_size != 8) return a < b;
    std::uint64_t x = 0;
    std::uint64_t y = 0;
    std::memcpy(&x, a.data(), sizeof x);
    std::memcpy(&y, b.data(), sizeof y);
    return x < y;
  }

  tree_api& tree_;
  const tree_options_t& options_;
  std::uint64_t records_;
  std::uint64_t wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 8) {
    std::fputs("host LIBRARY THREADS RECORDS KEY_SIZE VALUE_SIZE [POOL_PATH POOL_SIZE]\n", stderr);
    return 2;
  }
  tree_options_t options;
  options.num_threads = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t records = std::strtoull(argv[3], nullptr, 10);
  options.key_size = std::strtoull(argv[4], nullptr, 10);
  options.value_size = std::strtoull(argv[5], nullptr, 10);
  if (argc == 8) {
    options.pool_path = argv[6];
    options.pool_size = std::strtoull(argv[7], nullptr, 10);
    std::remove(options.pool_path.c_str());
  }
  void* const library = dlopen(argv[1], RTLD_NOW);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, "create_tree");
  if (symbol == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const auto create = reinterpret_cast<tree_api* (*)(const tree_options_t&)>(symbol);
  std::unique_ptr<tree_api> tree(create(options));
  if (tree == nullptr) return 2;
  const bool right = Host(*tree, options, records).run();
  tree.reset();
  if (!options.pool_path.empty()) std::remove(options.pool_path.c_str());
  return right ? 0 : 1;
}
