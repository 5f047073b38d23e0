#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "core/rng.h"
#include "structure/base/id_map.h"
#include "structure/base/structure_index.h"
#include "structure/base/test_history.h"

namespace perdure::structure {
namespace {

// Places follow keys through additions, removals and growth, in runs of neighbours as in lone keys.
TEST(IdMap, agrees_with_a_model) {
  struct Place {
    std::uint64_t value;
    [[nodiscard]] explicit operator bool() const noexcept { return value != 0; }
  };
  IdMap<Place> map;
  std::map<std::uint64_t, std::uint64_t> model;
  Rng rng(5);
  for (unsigned i = 0; i < 30000; ++i) {
    const std::uint64_t key = rng.below(i / 5000 % 2 == 0 ? 3000 : 60);
    const Place* const found = map.find(key);
    ASSERT_EQ(found != nullptr, model.contains(key));
    if (found != nullptr) {
      ASSERT_EQ(found->value, model[key]);
    }
    if (found == nullptr) {
      map.add(key, {i + 1});
      model[key] = i + 1;
    } else if (rng.below(3) != 0) {
      map.remove(key);
      model.erase(key);
    }
    ASSERT_EQ(map.size(), model.size());
  }
  for (const auto& [key, place] : model) EXPECT_EQ(map.find(key)->value, place);
}

struct Pair {
  std::uint64_t low;
  std::uint64_t high;
};

/// One block in a pool, as the two persistent memories change it.
template <class Memory>
class Changes {
 public:
  Changes() : store_("hashtable:pmem-trans", HeapKind::pmdk), memory_(&store_.pool()) {
    block_ = store_.pool().heap().reserve(sizeof(Pair));
    pair_ = new (store_.pool().at<Pair>(block_.offset)) Pair{1, 2};
    store_.pool().heap().publish({&block_, 1});
    if constexpr (Memory::lends_log) {
      log_ = store_.pool().heap().reserve(log_bytes);
      store_.pool().heap().publish({&log_, 1});
      memory_.own_log(store_.pool().at<void>(log_.offset));
    }
  }
  /// Changes half of the pair and then the other half, but for an end in between.
  void change(bool whole) {
    try {
      typename Memory::Change change(memory_);
      auto* const spare = change.template make<Pair>();
      *spare = {5, 6};
      change.set(pair_->low, 3);
      if (!whole) throw NoRoom{};
      change.edit({range(&pair_->high, 1)}, [&] { pair_->high = 4; });
      change.commit();
    } catch (const NoRoom&) {
    }
  }
  [[nodiscard]] const Pair& pair() const { return *pair_; }
  [[nodiscard]] std::uint64_t live_blocks() { return memory_.live_blocks(); }

 private:
  SlotStore store_;
  Memory memory_;
  Reservation block_;
  Reservation log_;
  Pair* pair_ = nullptr;
};

TEST(Change, is_whole_when_it_is_committed) {
  Changes<PmemPersistMemory<ObjectIds>> persist;
  Changes<PmemTransMemory<ObjectIds>> trans;
  const std::uint64_t before[] = {persist.live_blocks(), trans.live_blocks()};
  persist.change(true);
  trans.change(true);
  for (const Pair& pair : {persist.pair(), trans.pair()}) {
    EXPECT_EQ(pair.low, 3U);
    EXPECT_EQ(pair.high, 4U);
  }
  EXPECT_EQ(persist.live_blocks(), before[0] + 1);
  EXPECT_EQ(trans.live_blocks(), before[1] + 1);
}

// pmem-trans takes everything back, its blocks too; pmem-persist cannot, which is why C1 is.
TEST(Change, is_taken_back_when_it_is_not_committed) {
  Changes<PmemTransMemory<Offsets>> trans;
  const std::uint64_t before = trans.live_blocks();
  trans.change(false);
  EXPECT_EQ(trans.pair().low, 1U);
  EXPECT_EQ(trans.pair().high, 2U);
  EXPECT_EQ(trans.live_blocks(), before);
}

constexpr const char* all_structures[] = {
    "arraylist", "bplustree", "btree",      "graph_adjacency", "graph_bplustree",
    "graph_log", "hashtable", "linkedlist", "rbtree",          "skiplist"};

TEST(Structures, are_registered_once_for_each_mode) {
  for (const char* name : all_structures) {
    for (const std::string& mode : all_modes) {
      const auto found = IndexRegistry::find(std::string(name) + ":" + mode);
      ASSERT_TRUE(found.ok()) << name << mode;
      EXPECT_EQ((*found)->mode, mode);
      EXPECT_EQ((*found)->recovers(KeyKind::slots), mode == "pmem-persist" || mode == "pmem-trans");
    }
    EXPECT_EQ((*IndexRegistry::find(name))->mode, "pmem-trans");
    const auto missing = IndexRegistry::find(std::string(name) + ":pmem");
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().line().find("no mode 'pmem'"), std::string::npos);
  }
}

// S1: what a bulk load that was cut off has brought in is gone.
TEST(Structures, forget_a_bulk_load_that_was_cut_off) {
  for (const char* name : all_structures) {
    SlotStore store(name, HeapKind::pmdk);
    for (std::uint64_t key = 0; key < 1000; ++key)
      ASSERT_EQ(store.index().insert(key, value_of(key)), Outcome::ok);
    IndexRoot root{};
    const auto roots = store.pool().roots();
    std::memcpy(&root, store.pool().at<void>(roots.front().offset), sizeof root);
    store.pool().at<Anchor>(root.head)->loading = 1;
    ASSERT_TRUE(succeeds(store.crash())) << name;
    EXPECT_EQ(store.index().size(), 0U) << name;
    ASSERT_NO_FATAL_FAILURE(expect_model(store, {}, 1000)) << name;
    EXPECT_EQ(store.index().insert(1, "x"), Outcome::ok) << name;
  }
}

// A process that ends within a transaction whose log has grown into the structure's: libpmemobj
// undoes the transaction and frees that log.
TEST(Structures, do_not_miss_a_log_that_was_lent) {
  SlotStore store("hashtable:pmem-trans", HeapKind::pmdk);
  ASSERT_EQ(store.index().insert(1, "x"), Outcome::ok);
  const std::uint64_t blocks = store.pool().heap().usage().live_blocks;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    IndexRoot root{};
    std::memcpy(&root, store.pool().at<void>(store.pool().roots().front().offset), sizeof root);
    auto& top = *store.pool().at<Anchor>(root.head);
    PmdkTransaction transaction(static_cast<PmdkHeap&>(store.pool().heap()));
    const bool begun = transaction.lend_log(store.pool().at<void>(top.log), log_bytes) &&
                       transaction.snapshot(&top.loading, sizeof top.loading);
    top.loading = 1;
    _exit(begun ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(succeeds(store.crash()));
  EXPECT_EQ(store.index().size(), 1U);
  EXPECT_EQ(store.pool().heap().usage().live_blocks, blocks);
  ASSERT_TRUE(succeeds(store.index().check_invariants()));
  EXPECT_EQ(store.index().insert(2, "y"), Outcome::ok);
}

}  // namespace
}  // namespace perdure::structure
