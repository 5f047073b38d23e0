#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "index/common/test_toggle.h"
#include "structure/base/structure_index.h"
#include "structure/base/test_history.h"

namespace perdure::structure {
namespace {

/// A key, which is a number, or a value, its text.
struct Number {
  std::uint64_t number;
  std::string text;
  explicit Number(std::uint64_t n) : number(n), text(std::to_string(n)) {}
  operator std::uint64_t() const { return number; }
  operator std::string_view() const { return text; }
};

MadeIndex<SlotKeys> create_with(LockKind lock, const IndexInfo& info, Pool* pool) {
  IndexPlace place;
  place.pool = pool;
  place.options = *IndexRegistry::options(info, {});
  place.lock = lock;
  return create_index<SlotKeys>(info, place);
}

PoolOptions pool_for(const IndexInfo& info) {
  PoolOptions options;
  options.path = "/dev/shm/perdure-lock-test-" + std::to_string(getpid()) + ".pool";
  options.heap = info.heaps.empty() ? HeapKind::dram : info.heaps.front();
  options.bytes = Pool::min_pool_bytes * 2;
  options.overwrite = true;
  return options;
}

// Neighbours in a bucket or a node belong to different threads; nothing of theirs gets lost.
TEST(Lock, keeps_threads_out_of_each_others_way_in_every_mode) {
  constexpr unsigned threads = 3;
  constexpr std::uint64_t keys = 40;
  for (const IndexInfo& info : IndexRegistry::all()) {
    if (info.name != "hashtable" && info.name != "rbtree") continue;
    for (const LockKind lock : info.locks) {
      if (lock == LockKind::none) continue;
      SCOPED_TRACE(info.full_name() + " with " + perdure::name_of(lock));
      auto pool = Pool::create(pool_for(info));
      ASSERT_TRUE(pool.ok()) << pool.error().line();
      auto made = create_with(lock, info, pool->get());
      ASSERT_TRUE(made.ok()) << made.error().line();
      SlotIndex& index = **made;
      std::array<std::map<std::uint64_t, std::string>, threads> models;
      std::vector<std::thread> workers;
      for (unsigned t = 0; t < threads; ++t)
        workers.emplace_back([&, t] {
          index_test::toggle_own_keys(
              index, t, threads, keys, 600, [](std::uint64_t n) { return Number(n); }, models[t]);
        });
      for (std::thread& worker : workers) worker.join();
      EXPECT_TRUE(succeeds(index.check_invariants()));
      std::uint64_t records = 0;
      for (const auto& model : models) records += model.size();
      EXPECT_EQ(index.size(), records);
      made->reset();
      EXPECT_TRUE(succeeds((*pool)->close()));
      std::remove(pool_for(info).path.c_str());
      if (HasFailure()) return;
    }
  }
}

// K1: what a crash left in the mutex's memory holds nobody up.
TEST(Lock, is_made_anew_after_a_crash) {
  for (const char* name : {"hashtable:pmem-persist", "btree:pmem-trans"})
    for (const LockKind lock : {LockKind::pthread_pm, LockKind::pmemobj}) {
      SlotStore store(name, HeapKind::pmdk);
      ASSERT_EQ(store.index().insert(1, "one"), Outcome::ok);
      IndexRoot root{};
      const auto roots = store.pool().roots();
      std::memcpy(&root, store.pool().at<void>(roots.front().offset), sizeof root);
      store.pool().at<Anchor>(root.head)->lock.bytes.fill(std::byte{1});
      ASSERT_TRUE(succeeds(store.crash_with(lock)));
      std::string value;
      EXPECT_EQ(store.index().lookup(1, value), Outcome::ok);
      EXPECT_EQ(store.index().insert(2, "two"), Outcome::ok);
      EXPECT_EQ(store.index().remove(1), Outcome::ok);
    }
}

TEST(Lock, of_groups_lets_two_groups_be_changed_at_a_time) {
  Lock lock;
  LockPlace place;
  lock.choose(LockKind::buckets, place, nullptr);
  const Lock::WriteGuard one(lock, 1);
  const Lock::WriteGuard another(lock, 2);
  std::optional<Lock::ReadGuard> reader(std::in_place, lock, 3);
  std::atomic<bool> inside{false};
  std::thread waits([&] {
    const Lock::WriteGuard same(lock, 3);
    inside = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(inside);
  reader.reset();
  waits.join();
  EXPECT_TRUE(inside);
}

}  // namespace
}  // namespace perdure::structure
