#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/rng.h"
#include "index/utree/test_support.h"

namespace perdure {
namespace {

using namespace std::string_literals;
using utree_test::BytesModel;
using utree_test::expect_equal;
using utree_test::IntegerModel;
using utree_test::Store;
using utree_test::succeeds;
using Leaf = utree::Leaf;

// L1: keys around the ends of the range, among them the one that unused words look like (S2).
TEST(UTree, ExtremeIntegersSortAsUnsigned) {
  Store<IntegerKeys> store({"leaf_entries=2"});
  IntegerModel model;
  for (const std::uint64_t base : {std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0} - 4})
    for (std::uint64_t i = 0; i < 5; ++i) {
      ASSERT_EQ(store.index().insert(base + i, i), Outcome::ok);
      model[base + i] = i;
    }
  expect_equal(store.index(), model);
  for (const std::uint64_t key : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    ASSERT_EQ(store.index().remove(key), Outcome::ok);
    ASSERT_EQ(store.index().remove(key), Outcome::not_found);
    model.erase(key);
  }
  expect_equal(store.index(), model);
}

// D1: keys whose first eight bytes tie are told apart by their blobs.
TEST(UTree, StringsWithEqualFirstBytesKeepTheirOrder) {
  Store<ByteKeys> store({"leaf_entries=4"});
  BytesModel model;
  std::vector<std::string> keys{""s, "\0"s, "\0\0"s, std::string(8, '\xff'),
                                std::string(9, '\xff')};
  for (unsigned length = 0; length < 20; ++length) {
    keys.push_back(std::string(length, 'a'));
    keys.push_back("aaaaaaaa" + std::string(length, '\0'));
    keys.push_back("aaaaaaaa" + std::string(length, '\xff'));
  }
  Rng rng(3);
  for (std::size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[rng.below(i)]);
  for (const std::string& key : keys) {
    const bool fresh = model.emplace(key, key + "!").second;
    ASSERT_EQ(store.index().insert(key, key + "!"), fresh ? Outcome::ok : Outcome::exists);
  }
  expect_equal(store.index(), model);
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// T3: a leaf goes with its last record, whichever comes last; the first leaf stays.
TEST(UTree, EmptiedLeavesGo) {
  for (const unsigned order : {0U, 1U, 2U}) {
    SCOPED_TRACE(order);
    Store<IntegerKeys> store({"leaf_entries=4", "inner_entries=3"});
    IntegerModel model;
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < 500; ++key) {
      ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
      model[key] = key;
      keys.push_back(key);
    }
    if (order == 1) std::ranges::reverse(keys);
    Rng rng(4);
    if (order == 2)
      for (std::size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[rng.below(i)]);
    for (const std::uint64_t key : keys) {
      ASSERT_EQ(store.index().remove(key), Outcome::ok);
      model.erase(key);
      if (model.size() % 50 == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
      }
    }
    EXPECT_EQ(store.peer().leaves(), 1U);
    ASSERT_EQ(store.index().insert(7, 7), Outcome::ok);
    expect_equal<IntegerKeys>(store.index(), {{7, 7}});
  }
}

TEST(UTree, AscendingInsertionsFillLeaves) {
  Store<IntegerKeys> store;
  for (std::uint64_t key = 0; key < Leaf::entries * 100; ++key)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  EXPECT_EQ(store.peer().leaves(), 100U);
}

// L3: an integer is replaced in place; a byte string's old blob is freed after a grace period.
TEST(UTree, UpdatesLeaveNothingBehind) {
  Store<ByteKeys> store;
  ASSERT_EQ(store.index().insert("key", "value"), Outcome::ok);
  const std::uint64_t blocks = store.pool().heap().usage().live_blocks;
  for (unsigned i = 0; i < 1000; ++i)
    ASSERT_EQ(store.index().update("key", std::string(i, 'v')), Outcome::ok);
  store.index().quiesce();
  EXPECT_EQ(store.pool().heap().usage().live_blocks, blocks);
  EXPECT_EQ(store.peer().retired_bytes(), 0U);
}

// T7: a removed node is not reused while a reader may hold it.
TEST(UTree, RemovedNodesWaitForAGracePeriod) {
  Store<IntegerKeys> store;
  ASSERT_EQ(store.index().insert(1, 1), Outcome::ok);
  ASSERT_EQ(store.index().insert(2, 2), Outcome::ok);
  const std::uint64_t blocks = store.pool().heap().usage().live_blocks;
  ASSERT_EQ(store.index().remove(1), Outcome::ok);
  EXPECT_EQ(store.pool().heap().usage().live_blocks, blocks);
  EXPECT_EQ(store.peer().retired_bytes(), sizeof(utree::ListNode));
  store.index().quiesce();
  EXPECT_EQ(store.pool().heap().usage().live_blocks, blocks - 1);
}

template <class Keys>
void fills_a_pool(HeapKind heap) {
  Store<Keys> store({}, heap);
  utree_test::Model<Keys> model;
  Outcome outcome = Outcome::ok;
  for (std::uint64_t n = 0; outcome == Outcome::ok; ++n) {
    if constexpr (Keys::kind == KeyKind::integer) {
      outcome = store.index().insert(mix64(n), n);
      if (outcome == Outcome::ok) model[mix64(n)] = n;
    } else {
      const std::string key = "k" + std::to_string(mix64(n));
      const std::string value(n % 1000, 'v');
      outcome = store.index().insert(key, value);
      if (outcome == Outcome::ok) model[key] = value;
    }
  }
  ASSERT_EQ(outcome, Outcome::out_of_space);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  const auto gone = model.begin()->first;
  ASSERT_EQ(store.index().remove(gone), Outcome::ok);
  model.erase(gone);
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
}
TEST(UTree, FullPoolIsAnErrorAndLosesNothing) {
  fills_a_pool<IntegerKeys>(HeapKind::slab);
  fills_a_pool<ByteKeys>(HeapKind::slab);
}

TEST(UTree, BulkLoadThatDoesNotFitLeavesNothing) {
  Store<ByteKeys> store;
  index_test::expect_too_large_a_bulk_load_leaves_nothing(store);
}

// Any number of records, around the sizes of leaves and of parts.
TEST(UTree, BulkLoadsAnyNumberOfRecords) {
  for (const std::size_t count : {0U, 1U, 13U, 14U, 15U, 29U, 511U, 512U, 1023U, 1024U, 5000U}) {
    SCOPED_TRACE(count);
    Store<IntegerKeys> store;
    IntegerModel model;
    std::vector<IntegerRecord> records;
    for (std::uint64_t i = 0; i < count; ++i) {
      records.push_back({i * 3, i});
      model[i * 3] = i;
    }
    ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
    ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  }
}

// Each invariant that the check names is one that it finds.
TEST(UTree, CheckNamesTheBrokenInvariant) {
  const auto broken = [](auto&& damage) {
    Store<IntegerKeys> store({"leaf_entries=4"});
    for (std::uint64_t key = 10; key < 200; key += 10)
      EXPECT_EQ(store.index().insert(key, key), Outcome::ok);
    EXPECT_TRUE(succeeds(store.index().check_invariants()));
    damage(store);
    const Result<void> checked = store.index().check_invariants();
    return checked.ok() ? "nothing" : checked.error().line();
  };
  const auto names = [&](const char* invariant, auto&& damage) {
    const std::string line = broken(damage);
    EXPECT_NE(line.find(std::string("breaks ") + invariant + ":"), std::string::npos) << line;
  };
  names("S3", [](auto& store) { (void)store.peer().leaf_of(50).lock.lock(); });
  names("T1", [](auto& store) { store.peer().node_of(50).next = 0; });
  names("T1",
        [](auto& store) { store.peer().node_of(50).next = store.peer().node_of(60).next.load(); });
  names("T1", [](auto& store) { store.peer().first().next = &store.peer().leaf_of(190); });
  names("D1", [](auto& store) { store.peer().node_of(50).record.key = 51; });
  names("T2", [](auto& store) {
    auto& node = store.peer().node_of(10);
    node.record.key = 1000;
    store.peer().first().remove_at(0);
    store.peer().first().insert_at(0, {1000, store.pool().offset_of(&node)});
  });
  names("L2", [](auto& store) {
    Reservation block = store.pool().heap().reserve(32);
    store.pool().heap().publish({&block, 1});
  });
}

TEST(UTree, AnotherKindOfKeyIsForeign) {
  Store<IntegerKeys> store;
  const MadeIndex<ByteKeys> other = UTree<ByteKeys>::recover(store.place());
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::foreign);
}

}  // namespace
}  // namespace perdure
