// What the tests of FPTree share: a pool in a file that can lose power, and keys of either kind.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/rng.h"
#include "index/common/index_root.h"
#include "index/fptree/fptree.h"
#include "index/registry.h"

namespace perdure::fptree {

/// A pool file of its own, removed at the end.
class TestPool {
 public:
  explicit TestPool(std::uint64_t bytes = Pool::min_pool_bytes) {
    static unsigned number = 0;
    options_.path = (std::filesystem::exists("/dev/shm") ? "/dev/shm/" : testing::TempDir()) +
                    "perdure_fptree_" + std::to_string(getpid()) + "_" + std::to_string(number++);
    options_.bytes = bytes;
    options_.huge_pages = false;
    options_.prefault = false;
    options_.overwrite = true;
    auto created = Pool::create(options_);
    if (!created) {
      ADD_FAILURE() << created.error().line();
      return;
    }
    pool_ = std::move(created).value();
  }
  ~TestPool() {
    pool_.reset();
    std::filesystem::remove(options_.path);
  }
  TestPool(const TestPool&) = delete;
  TestPool& operator=(const TestPool&) = delete;

  [[nodiscard]] Pool& operator*() const noexcept { return *pool_; }
  [[nodiscard]] Pool* operator->() const noexcept { return pool_.get(); }

  /// Maps the file anew, without a clean shutdown: what the process knew is gone.
  void lose_power() {
    pool_.reset();
    auto opened = Pool::open(options_);
    ASSERT_TRUE(opened.ok()) << opened.error().line();
    pool_ = std::move(opened).value();
  }

 private:
  PoolOptions options_;
  std::unique_ptr<Pool> pool_;
};

/// The same number as a key of either kind, in the same order. Byte keys share their first bytes
/// often.
template <class Keys>
auto key_from(std::uint64_t number) {
  if constexpr (Keys::kind == KeyKind::integer) {
    return number;
  } else {
    char text[40];
    std::snprintf(text, sizeof text, "k%020llu", static_cast<unsigned long long>(number));
    std::string key(text);
    key.push_back('\0');
    if (number % 3 == 0) key.append(number % 50, 'x');
    return key;
  }
}

template <class Keys>
auto value_from(std::uint64_t number) {
  if constexpr (Keys::kind == KeyKind::integer)
    return number;
  else
    return "value " + std::to_string(number) + std::string(number % 90, '\0');
}

template <class Keys>
struct Fixture {
  using Index = OrderedIndex<Keys>;

  explicit Fixture(unsigned leaf_entries = 8, unsigned inner_entries = 4,
                   std::uint64_t bytes = Pool::min_pool_bytes, bool update_in_place = false)
      : pool(bytes) {
    place.options.set("update_in_place", update_in_place ? 1 : 0);
    place.options.set("leaf_entries", leaf_entries);
    place.options.set("inner_entries", inner_entries);
    place.huge_pages = false;
    place.threads = 2;
    place.pool = &*pool;
    auto created = FpTree<Keys>::create(place);
    if (created)
      index = std::move(created).value();
    else
      ADD_FAILURE() << created.error().line();
  }

  /// Power cut, reopening, recovery.
  Result<void> restart() {
    index.reset();
    pool.lose_power();
    return recover();
  }
  Result<void> recover() {
    place.pool = &*pool;
    auto recovered = FpTree<Keys>::recover(place);
    if (!recovered) return recovered.error();
    index = std::move(recovered).value();
    return {};
  }
  [[nodiscard]] Leaf& leaf_at(std::uint64_t offset) const {
    return *pool->template at<Leaf>(offset);
  }
  [[nodiscard]] Leaf& head() const {
    const auto root = read_index_root(
        *pool, place.root_name,
        {.index = "fptree", .layout_version = layout_version, .key_kind = Keys::kind});
    return leaf_at(root->head);
  }
  Outcome insert(std::uint64_t number) { return insert(number, number); }
  Outcome insert(std::uint64_t number, std::uint64_t value) {
    return index->insert(key_from<Keys>(number), value_from<Keys>(value));
  }
  /// The value's number is found by comparing; missing: empty.
  [[nodiscard]] bool holds(std::uint64_t number, std::uint64_t value) {
    typename Keys::ValueOut out{};
    return index->lookup(key_from<Keys>(number), out) == Outcome::ok &&
           out == value_from<Keys>(value);
  }
  [[nodiscard]] bool absent(std::uint64_t number) {
    typename Keys::ValueOut out{};
    return index->lookup(key_from<Keys>(number), out) == Outcome::not_found;
  }

  /// The index holds exactly the model, by lookup, by scan and by its own invariants.
  void expect(const std::map<std::uint64_t, std::uint64_t>& model) {
    const Result<void> sound = index->check_invariants();
    ASSERT_TRUE(sound.ok()) << sound.error().line();
    ASSERT_EQ(index->size(), model.size());
    typename Keys::Scan out;
    ASSERT_EQ(index->scan(typename Keys::Key{}, model.size() + 5, out), model.size());
    std::size_t i = 0;
    for (const auto& [number, value] : model) {
      ASSERT_TRUE(holds(number, value)) << number;
      ASSERT_TRUE(out[i].key == key_from<Keys>(number)) << number;
      ASSERT_TRUE(out[i].value == value_from<Keys>(value)) << number;
      ++i;
    }
  }

  TestPool pool;
  IndexPlace place;
  std::unique_ptr<Index> index;
};

}  // namespace perdure::fptree
