#include "structure/tree/balanced_tree.h"

#include "structure/base/test_history.h"

namespace perdure::structure {
namespace {

const std::vector<std::string> trees{"btree", "bplustree"};

// B1, B2: ascending, descending and alternating keys split and refill at the ends of nodes.
TEST(BalancedTree, keeps_its_balance_whatever_the_order) {
  constexpr std::uint64_t keys = 3000;
  for (const std::string& tree : trees)
    for (const char* variant : {"", "embedded=1"}) {
      if (*variant != '\0' && tree != "btree") continue;
      for (unsigned order = 0; order < 3; ++order) {
        std::vector<std::string> options;
        if (*variant != '\0') options.emplace_back(variant);
        SlotStore store((tree + ":dram").c_str(), HeapKind::dram, Pool::min_pool_bytes, options);
        const auto key_of = [&](std::uint64_t i) {
          if (order == 0) return i;
          if (order == 1) return keys - 1 - i;
          return i % 2 == 0 ? i / 2 : keys - 1 - i / 2;
        };
        SlotModel model;
        for (std::uint64_t i = 0; i < keys; ++i) {
          ASSERT_EQ(store.index().insert(key_of(i), value_of(i)), Outcome::ok);
          model[key_of(i)] = value_of(i);
        }
        ASSERT_NO_FATAL_FAILURE(expect_model(store, model, keys));
        for (std::uint64_t i = 0; i < keys; ++i) {
          ASSERT_EQ(store.index().remove(key_of(i * 7 % keys)), Outcome::ok);
          model.erase(key_of(i * 7 % keys));
          if (i % 500 == 0) {
            ASSERT_NO_FATAL_FAILURE(expect_model(store, model, keys)) << i;
          }
        }
        EXPECT_EQ(store.index().size(), 0U);
      }
    }
}

// An operation changes no more than it says: with pmem-trans what is not logged would not be
// undone.
TEST(BalancedTree, takes_back_a_change_that_finds_no_room) {
  for (const std::string& tree : trees) {
    SlotStore store((tree + ":pmem-trans").c_str(), HeapKind::pmdk);
    SlotModel model;
    std::uint64_t key = 0;
    for (;; ++key) {
      const Outcome outcome = store.index().insert(mix64(key) % 1'000'000, value_of(key));
      if (outcome == Outcome::out_of_space) break;
      if (outcome == Outcome::ok) model[mix64(key) % 1'000'000] = value_of(key);
    }
    ASSERT_GT(model.size(), 1000U);
    for (std::uint64_t more = key; more < key + 300; ++more)
      if (store.index().insert(mix64(more) % 1'000'000, value_of(more)) == Outcome::ok)
        model[mix64(more) % 1'000'000] = value_of(more);
    ASSERT_NO_FATAL_FAILURE(expect_model(store, model, 0));
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_model(store, model, 0));
    while (!model.empty()) {  // a full pool has room for every remove
      ASSERT_EQ(store.index().remove(model.begin()->first), Outcome::ok);
      model.erase(model.begin());
    }
  }
}

}  // namespace
}  // namespace perdure::structure
