// What only Roart has; the suites do the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/rng.h"
#include "index/roart/test_support.h"

namespace perdure {
namespace {

using roart::Entry;
using roart::Kind;
using roart::Node;
using roart_test::BytesModel;
using roart_test::expect_equal;
using roart_test::IntegerModel;
using roart_test::Model;
using roart_test::Store;
using roart_test::succeeds;

template <class Keys, class Key>
void insert(Store<Keys>& store, Model<Keys>& model, const Key& key) {
  ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  model[key] = key;
}

// A root block, the block of restart.h, the root and its array.
constexpr std::uint64_t blocks_when_empty = 4;

TEST(RoartNode, FindsTheEntryThatStandsForASymbol) {  // N2
  for (const Kind kind : {Kind::n4, Kind::n20, Kind::n256}) {
    alignas(64) std::array<std::byte, Node::bytes_of(Kind::n256)> memory;
    Node& node = *Node::make(memory.data(), kind, 3, KeyPath<ByteKeys>("abc"), 0);
    for (const unsigned symbol : {256U, 0U, 100U, 7U})
      node.add({symbol, Kind::leaf_array, 64 * (symbol + 1)});
    EXPECT_EQ(node.count(), 4U);
    for (unsigned symbol = 0; symbol <= roart::last_symbol; ++symbol) {
      const unsigned own = symbol < 7 ? 0 : symbol < 100 ? 7 : symbol < 256 ? 100 : 256;
      ASSERT_EQ(node.find(symbol).symbol(), own) << symbol;
      const unsigned next = symbol == 0 ? 0 : symbol <= 7 ? 7 : symbol <= 100 ? 100 : 256;
      ASSERT_EQ(node.next(symbol).symbol(), next) << symbol;
    }
    EXPECT_FALSE(node.next(roart::last_symbol + 1));
  }
}

TEST(RoartNode, HoldsTheEndOfItsPath) {  // N1
  alignas(64) std::array<std::byte, Node::bytes_of(Kind::n4)> memory;
  const std::string key = "0123456789abcdefghij";
  const KeyPath<ByteKeys> path(key);
  const Node& node = *Node::make(memory.data(), Kind::n4, 20, path, 0);
  for (unsigned at = 4; at < 20; ++at)
    EXPECT_EQ(node.byte_at(at), static_cast<std::uint8_t>(key[at - 1]));
  EXPECT_EQ(node.fork_from(path, 4), 20U);
  EXPECT_EQ(node.fork_from(KeyPath<ByteKeys>("0123456789abxdefghij"), 4), 13U);
  EXPECT_EQ(node.fork_from(KeyPath<ByteKeys>("0123456"), 4), 8U);
}

TEST(Roart, FillsLeafArraysByUniformKeys) {
  constexpr unsigned records = 200'000;
  Store<IntegerKeys> store({}, HeapKind::slab, std::uint64_t{64} << 20);
  for (unsigned i = 0; i < records; ++i) ASSERT_EQ(store.index().insert(mix64(i), i), Outcome::ok);
  const double fill = static_cast<double>(records) / static_cast<double>(store.peer().arrays());
  EXPECT_GT(fill, 0.6 * roart::LeafArray::most_entries);
  EXPECT_LT(store.pool().heap().usage().live_bytes, 36 * records);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

// Whatever the order, nothing but the empty tree is left after the last removal.
TEST(Roart, RemovalsGiveEverythingBack) {
  for (const bool backwards : {false, true}) {
    Store<IntegerKeys> store({"leaf_entries=2"});
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < 5000; ++i) keys.push_back(i % 2 == 0 ? i : mix64(i));
    for (const std::uint64_t key : keys) ASSERT_EQ(store.index().insert(key, 1), Outcome::ok);
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
    std::ranges::sort(keys);
    if (backwards) std::ranges::reverse(keys);
    for (const std::uint64_t key : keys) ASSERT_EQ(store.index().remove(key), Outcome::ok);
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
    EXPECT_LE(store.pool().heap().usage().live_blocks, blocks_when_empty + 8);
    EXPECT_EQ(store.index().insert(1, 1), Outcome::ok);
  }
}

// N1: chains of nodes hold what one cannot; keys may begin others, and hold zero bytes.
TEST(Roart, LongSharedPrefixes) {
  Store<ByteKeys> store({"leaf_entries=2"});
  BytesModel model;
  std::string key;
  for (unsigned i = 0; i < 300; ++i) {
    ASSERT_NO_FATAL_FAILURE(insert(store, model, key));
    key += static_cast<char>(i % 3 == 0 ? 0 : i);
  }
  const std::string deep(2000, 'x');
  for (const char* end : {"", "a", "b", "ba", "c", "d"})
    ASSERT_NO_FATAL_FAILURE(insert(store, model, deep + end));
  for (const std::size_t length : {1999U, 1000U, 17U, 16U, 15U, 1U}) {
    ASSERT_NO_FATAL_FAILURE(insert(store, model, deep.substr(0, length)));
    ASSERT_NO_FATAL_FAILURE(insert(store, model, deep.substr(0, length) + "w"));
    ASSERT_NO_FATAL_FAILURE(insert(store, model, deep.substr(0, length) + "y"));
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  while (!model.empty()) {
    ASSERT_EQ(store.index().remove(model.begin()->first), Outcome::ok);
    model.erase(model.begin());
    if (model.size() % 50 == 0) expect_equal(store.index(), model);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
}

// Readers never wait: not for an array's lock, and not for a node's.
TEST(Roart, ReadersNeverWait) {
  Store<IntegerKeys> store({"leaf_entries=4"});
  IntegerModel model;
  for (std::uint64_t key = 0; key < 40; ++key) ASSERT_NO_FATAL_FAILURE(insert(store, model, key));
  const auto [node, entry] = store.peer().place_of(5);
  roart::OpeningLock& array_lock = store.peer().array_of(5).lock;
  ASSERT_TRUE(node->lock.try_lock());
  ASSERT_TRUE(array_lock.try_lock());
  std::uint64_t value = 0;
  EXPECT_EQ(store.index().lookup(5, value), Outcome::ok);
  EXPECT_EQ(value, 5U);
  EXPECT_EQ(store.index().lookup(100, value), Outcome::not_found);
  IntegerScan scan;
  EXPECT_EQ(store.index().scan(0, 100, scan), model.size());
  array_lock.unlock_unchanged();
  node->lock.unlock_unchanged();
  expect_equal(store.index(), model);
}

TEST(Roart, RefusalsDisturbNobody) {
  Store<IntegerKeys> store;
  ASSERT_EQ(store.index().insert(1, 1), Outcome::ok);
  const roart::OpeningLock& lock = store.peer().array_of(1).lock;
  const std::uint64_t word = lock.peek();
  EXPECT_EQ(store.index().insert(1, 2), Outcome::exists);
  EXPECT_EQ(store.index().update(2, 2), Outcome::not_found);
  EXPECT_EQ(store.index().remove(2), Outcome::not_found);
  EXPECT_TRUE(lock.validate(word));
}

TEST(Roart, AnotherArraySizeIsForeign) {
  Store<IntegerKeys> store({"leaf_entries=8"});
  auto place = store.place();
  place.options.set("leaf_entries", 16);
  const auto other = Roart<IntegerKeys>::recover(place);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::foreign);
}

// Two threads build the topmost node's groups, and judge the nodes of a level when there are
// enough.
TEST(Roart, ThreadsShareALoadAndARecovery) {
  constexpr std::uint64_t prefixes = 1500;
  Store<IntegerKeys> store({"leaf_entries=4"}, HeapKind::slab, 4 * Pool::min_pool_bytes);
  IntegerModel model;
  std::vector<IntegerRecord> records;
  for (std::uint64_t i = 0; i < prefixes; ++i)
    for (std::uint64_t j = 0; j < 6; ++j) records.push_back({i * 43 << 48 | j, i + j});
  for (const IntegerRecord& record : records) model.emplace(record.key, record.value);
  ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  for (std::uint64_t i = 0; i < prefixes; i += 7)
    ASSERT_NO_FATAL_FAILURE(insert(store, model, (i * 43 << 48) + 77));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// Out of space in a load of several threads: each gives back what it took.
TEST(Roart, ALoadWithoutRoomLeavesNothing) {
  Store<IntegerKeys> store;
  std::vector<IntegerRecord> records;
  for (std::uint64_t i = 0; i < Pool::min_pool_bytes / sizeof(LeafRecord); ++i)
    records.push_back({i, i});
  const Result<void> loaded = store.index().bulk_load(records);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::out_of_space);
  expect_equal(store.index(), IntegerModel{});
}

// T3: threads that split, fork and reclaim all the time lose nothing that others hold.
TEST(Roart, ReadersFindWhatStays) {
  Store<IntegerKeys> store({"leaf_entries=2"}, HeapKind::slab, std::uint64_t{64} << 20);
  constexpr std::uint64_t stay = 300;
  const auto kept = [](std::uint64_t i) { return mix64(i) >> 40; };
  for (std::uint64_t i = 0; i < stay; ++i) (void)store.index().upsert(kept(i), i);
  std::atomic<bool> stop{false};
  std::atomic<unsigned> lost{0};
  std::vector<std::jthread> writers;
  for (unsigned thread = 0; thread < 2; ++thread)
    writers.emplace_back([&, thread] {
      Rng rng(thread);
      while (!stop.load(std::memory_order_relaxed)) {
        const std::uint64_t base = kept(rng.below(stay));
        std::vector<std::uint64_t> keys;
        for (unsigned i = 0; i < 12; ++i) {
          const std::uint64_t key = (base ^ (std::uint64_t{1} << rng.below(24))) * 4 + 1 + thread;
          if (store.index().insert(key << 8, 1) == Outcome::ok) keys.push_back(key << 8);
          if (store.index().insert(base + (1ULL << 32) * (1 + thread) + i, 1) == Outcome::ok)
            keys.push_back(base + (1ULL << 32) * (1 + thread) + i);
        }
        for (const std::uint64_t key : keys)
          if (store.index().remove(key) != Outcome::ok) ++lost;
      }
    });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  IntegerScan scan;
  while (std::chrono::steady_clock::now() < end) {
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; i < stay; ++i)
      if (store.index().lookup(kept(i), value) != Outcome::ok) ++lost;
    store.index().scan(0, 100'000, scan);
    std::size_t at = 0;
    for (std::size_t i = 1; i < scan.size(); ++i)
      if (!(scan[i - 1].key < scan[i].key)) ++lost;
    std::vector<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < stay; ++i) expected.push_back(kept(i));
    std::ranges::sort(expected);
    for (std::size_t i = 0; i < scan.size() && at < expected.size(); ++i)
      if (scan[i].key == expected[at]) ++at;
    if (at != expected.size()) ++lost;
  }
  stop = true;
  writers.clear();
  EXPECT_EQ(lost, 0U);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

}  // namespace
}  // namespace perdure
