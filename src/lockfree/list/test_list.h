// TestList: a list in memory of its own, whose media a test may damage before it is recovered.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "index/registry.h"
#include "lockfree/memory/node_slab.h"
#include "pm/pm.h"

namespace perdure::lockfree {

class TestList {
 public:
  static constexpr std::size_t bytes = std::size_t{512} << 10;
  static constexpr std::uint64_t nodes = 256;

  explicit TestList(const std::string& name, IndexOptions options = {})
      : info_(**IndexRegistry::find(name)), options_(std::move(options)), memory_(allocate()) {
    if (info_.needs_eadr) pm::configure(pm::Durability::eadr);
    pool_ = std::move(Pool::create_in({memory_.get(), bytes})).value();
    list_ = std::move(create_index<IntegerKeys>(info_, place())).value();
  }
  ~TestList() {
    list_.reset();
    pool_.reset();
    pm::configure(pm::Durability::adr);
  }
  TestList(const TestList&) = delete;
  TestList& operator=(const TestList&) = delete;

  /// For the next opening.
  [[nodiscard]] IndexOptions& options() { return options_; }
  [[nodiscard]] IntegerIndex& operator*() const { return *list_; }
  [[nodiscard]] IntegerIndex* operator->() const { return list_.get(); }

  /// The power is cut, with everything on media that was stored; `damage` changes what is there.
  template <class Damage>
  [[nodiscard]] Result<void> cut(Damage&& damage) {
    Memory copy = allocate();
    std::memcpy(copy.get(), memory_.get(), bytes);
    list_.reset();
    pool_.reset();
    memory_ = std::move(copy);
    damage();
    auto pool = Pool::open_in({memory_.get(), bytes});
    if (!pool) return pool.error();
    pool_ = std::move(pool).value();
    auto list = recover_index<IntegerKeys>(info_, place());
    if (!list) return list.error();
    list_ = std::move(list).value();
    return list_->check_invariants();
  }
  [[nodiscard]] Result<void> cut() {
    return cut([] {});
  }

  /// What another index says to this one's pool.
  [[nodiscard]] MadeIndex<IntegerKeys> open_as(const std::string& name) const {
    Memory copy = allocate();
    std::memcpy(copy.get(), memory_.get(), bytes);
    auto pool = std::move(Pool::open_in({copy.get(), bytes})).value();
    IndexPlace other = place();
    other.pool = pool.get();
    return recover_index<IntegerKeys>(**IndexRegistry::find(name), other);
  }

  [[nodiscard]] std::vector<std::uint64_t> keys() const {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < 100; ++key) {
      std::uint64_t value = 0;
      if (list_->lookup(key, value) != Outcome::ok) continue;
      EXPECT_EQ(value, key * 7);
      keys.push_back(key);
    }
    return keys;
  }
  void insert(std::initializer_list<std::uint64_t> keys) const {
    for (const std::uint64_t key : keys) EXPECT_EQ(list_->insert(key, key * 7), Outcome::ok);
  }

  /// The node on media whose key word is this.
  [[nodiscard]] Node& node_of(std::uint64_t key) const {
    for (std::size_t at = 4096; at < bytes; at += sizeof(Node)) {
      Node& node = *reinterpret_cast<Node*>(memory_.get() + at);
      if (node.key.load() == key && node.value.load() == key * 7) return node;
    }
    ADD_FAILURE() << "no node has key " << key;
    std::abort();
  }
  [[nodiscard]] std::uint64_t offset_of(const void* address) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - memory_.get());
  }
  [[nodiscard]] SlabTop& top() const {
    const PoolRoot root = pool_of_roots().front();
    const auto* const head =
        reinterpret_cast<const std::uint64_t*>(memory_.get() + root.offset + 48);
    return *reinterpret_cast<SlabTop*>(memory_.get() + *head);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;

  [[nodiscard]] static Memory allocate() {
    Memory memory(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    std::memset(memory.get(), 0, bytes);
    return memory;
  }
  [[nodiscard]] IndexPlace place() const {
    IndexPlace place;
    place.pool = pool_.get();
    place.huge_pages = false;
    place.options = options_;
    place.options.set("nodes", nodes);
    return place;
  }
  /// Also while the pool is closed.
  [[nodiscard]] std::vector<PoolRoot> pool_of_roots() const {
    auto pool = Pool::open_in({memory_.get(), bytes});
    return pool_ ? pool_->roots() : pool.value()->roots();
  }

  const IndexInfo& info_;
  IndexOptions options_;
  Memory memory_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<IntegerIndex> list_;
};

/// What every list that is kept must do.
inline void expect_kept_through_cuts(const std::string& name, const IndexOptions& options = {}) {
  TestList list(name, options);
  list.insert({30, 10, 20});
  EXPECT_EQ(list->insert(20, 1), Outcome::exists);
  EXPECT_EQ(list->remove(10), Outcome::ok);
  EXPECT_EQ(list->remove(10), Outcome::not_found);
  ASSERT_TRUE(list.cut());
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{20, 30}));
  list.insert({10, 40});
  EXPECT_EQ(list->remove(30), Outcome::ok);
  ASSERT_TRUE(list.cut());
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 20, 40}));
  EXPECT_EQ(list->update(10, 1), Outcome::invalid);
  EXPECT_EQ(list->upsert(10, 1), Outcome::invalid);
  std::uint64_t filled = 3;
  for (std::uint64_t key = 1000; list->insert(key, key) == Outcome::ok; ++key) ++filled;
  EXPECT_EQ(filled, TestList::nodes);
  EXPECT_EQ(list->remove(1000), Outcome::ok);
  EXPECT_EQ(list->insert(1000, 1), Outcome::ok) << "with the node that became free";
  ASSERT_TRUE(list.cut());
  EXPECT_EQ(list->size(), TestList::nodes);
}

/// A bulk load that a power cut ended leaves nothing.
inline void expect_empty_after_a_cut_bulk_load(const std::string& name) {
  TestList list(name);
  const std::vector<IntegerRecord> records{{1, 7}, {2, 14}, {3, 21}};
  ASSERT_TRUE(list->bulk_load(records));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{1, 2, 3}));
  ASSERT_TRUE(list.cut());
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{1, 2, 3}));
  ASSERT_TRUE(list.cut([&] { list.top().loading.store(1); }));
  EXPECT_EQ(list->size(), 0U);
  list.insert({2});
  ASSERT_TRUE(list.cut());
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{2}));
}

}  // namespace perdure::lockfree
