// LineTree's integers against a model: adversarial keys, scans, bulk loads, full pools, and what
// check_invariants notices. Random operations of all kinds are in linetree_kinds_test.cpp.
#include "index/linetree/linetree.h"

#include <gmock/gmock.h>

#include <numeric>

#include "index/linetree/test_support.h"

namespace perdure {
namespace {

using linetree_test::expect_equal;
using linetree_test::IntegerModel;
using linetree_test::Integers;
using linetree_test::large_pool;
using linetree_test::succeeds;
using Leaf = linetree::Leaf;

// L2, L3: the keys that empty slots hold are keys as well, on the other side of the boundary.
TEST(LineTree, ExtremeIntegersSortAsUnsigned) {
  Integers store;
  IntegerModel model;
  constexpr std::uint64_t sign = linetree::boundary;
  for (const std::uint64_t key : {~std::uint64_t{0}, sign, sign - 1, std::uint64_t{0}, sign + 1})
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::uint64_t near = key >= sign ? key - i : key + i;
      const bool fresh = model.emplace(near, ~near).second;
      ASSERT_EQ(store.index().insert(near, ~near), fresh ? Outcome::ok : Outcome::exists);
    }
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  IntegerScan scan;
  EXPECT_EQ(store.index().scan(~std::uint64_t{0}, 5, scan), 1U) << "the highest key ends a scan";
  for (const std::uint64_t key : {~std::uint64_t{0}, std::uint64_t{0}}) {
    ASSERT_EQ(store.index().remove(key), Outcome::ok);
    model.erase(key);
    std::uint64_t value = 0;
    EXPECT_EQ(store.index().lookup(key, value), Outcome::not_found);
    EXPECT_EQ(store.index().remove(key), Outcome::not_found);
  }
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// Dense and clustered keys reach all lines alike: leaves fill as far as with random keys.
TEST(LineTree, LeavesFillWhateverTheKeys) {
  const auto leaves_for = [](auto&& key_of) {
    Integers store({"lines=8"}, HeapKind::slab, large_pool);
    for (std::uint64_t i = 0; i < 20000; ++i)
      EXPECT_EQ(store.index().insert(key_of(i), i), Outcome::ok);
    EXPECT_TRUE(succeeds(store.index().check_invariants()));
    return static_cast<double>(store.peer().leaves());
  };
  const double random = leaves_for([](std::uint64_t i) { return mix64(i); });
  EXPECT_LT(random, 20000 / (0.55 * 31)) << "more than 55 % full";
  // V4: what stays behind is never filled again, so it is full.
  const double ascending = leaves_for([](std::uint64_t i) { return i * 3; });
  EXPECT_LT(ascending, 20000 / (0.8 * 31)) << "more than 80 % full";
  const double descending = leaves_for([](std::uint64_t i) { return (40000 - i) * 3; });
  EXPECT_LT(descending, 20000 / (0.8 * 31)) << "more than 80 % full";
  std::vector<std::uint64_t> shuffled(20000);
  std::iota(shuffled.begin(), shuffled.end(), 0);
  Rng rng(3);
  std::shuffle(shuffled.begin(), shuffled.end(), rng);
  const auto in_shuffled = [&](std::uint64_t scale) {
    return leaves_for([&](std::uint64_t i) { return shuffled[i] * scale; });
  };
  for (const std::uint64_t scale : {std::uint64_t{1}, std::uint64_t{8}, std::uint64_t{64},
                                    std::uint64_t{4096}, std::uint64_t{1} << 40}) {
    EXPECT_LT(in_shuffled(scale), random * 1.15) << scale;
  }
  EXPECT_LT(leaves_for([&](std::uint64_t i) {
              return mix64(shuffled[i] / 16) / 64 * 64 + shuffled[i] % 16;
            }),
            random * 1.15)
      << "bursts of 16";
}

// L4, V2: keys that all have one home line go to their overflow line and displace; lookups follow.
TEST(LineTree, KeysOfOneLineOverflowAndDisplace) {
  for (const unsigned home : {0U, 3U}) {
    SCOPED_TRACE(home);
    Integers store;
    IntegerModel model;
    const auto keys = store.peer().keys_in(home, -1, 300);
    for (const std::uint64_t key : keys) {
      ASSERT_EQ(store.index().insert(key, ~key), Outcome::ok);
      model[key] = ~key;
      ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
    }
    std::uint64_t value = 0;
    for (std::uint64_t key = 0; key < 2000; ++key)
      ASSERT_EQ(store.index().lookup(key, value) == Outcome::ok, model.contains(key));
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
    for (const std::uint64_t key : keys) {
      ASSERT_EQ(store.index().remove(key), Outcome::ok);
      model.erase(key);
    }
    expect_equal(store.index(), model);
  }
}

// L3, L5: what a split has left of a key does not come back when leaves merge over it.
TEST(LineTree, StaleRecordsNeverComeBack) {
  for (unsigned round = 0; round < 40; ++round) {
    Integers store({"lines=4"});
    IntegerModel model;
    Rng rng(round);
    const auto put = [&](std::uint64_t key) {
      const std::uint64_t value = rng();
      ASSERT_EQ(store.index().upsert(key, value), Outcome::ok);
      model[key] = value;
    };
    for (unsigned turn = 0; turn < 6; ++turn) {
      for (std::uint64_t n = 0; n < 40; ++n) ASSERT_NO_FATAL_FAILURE(put(rng.below(60)));
      while (model.size() > 5) {
        const auto victim = std::next(model.begin(), static_cast<long>(rng.below(model.size())));
        ASSERT_EQ(store.index().remove(victim->first), Outcome::ok);
        model.erase(victim);
        ASSERT_EQ(store.index().size(), model.size());
      }
      ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
      if (turn % 2 == 1) {
        ASSERT_TRUE(succeeds(store.crash()));
      }
    }
  }
}

void fills_pool_without_loss(HeapKind heap) {
  Integers store({}, heap);
  IntegerModel model;
  Outcome outcome = Outcome::ok;
  std::uint64_t i = 0;
  for (; outcome == Outcome::ok; ++i) {
    outcome = store.index().insert(mix64(i), i);
    if (outcome == Outcome::ok) model.emplace(mix64(i), i);
  }
  ASSERT_EQ(outcome, Outcome::out_of_space);
  ASSERT_GT(model.size(), 1000U);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  EXPECT_EQ(store.index().insert(model.begin()->first, {}), Outcome::exists);
  EXPECT_EQ(store.index().update(model.begin()->first, 5), Outcome::ok);
  model.begin()->second = 5;
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  // What is removed makes room again.
  for (unsigned n = 0; n < 500; ++n) {
    ASSERT_EQ(store.index().remove(model.begin()->first), Outcome::ok);
    model.erase(model.begin());
  }
  store.index().quiesce();
  for (unsigned n = 0; n < 5; ++n, ++i) {
    ASSERT_EQ(store.index().insert(mix64(i), i), Outcome::ok);
    model[mix64(i)] = i;
  }
  expect_equal(store.index(), model);
}

TEST(LineTree, FullPoolsAreAnErrorAndLoseNothing) {
  fills_pool_without_loss(HeapKind::slab);
  fills_pool_without_loss(HeapKind::pmdk);
}

void bulk_loads(std::size_t count, std::uint64_t mask, const char* lines) {
  SCOPED_TRACE(count);
  Integers store({lines}, HeapKind::slab, large_pool);
  IntegerModel model;
  for (std::size_t i = 0; model.size() < count; ++i) model[mix64(i) & mask] = i;
  std::vector<IntegerRecord> records;
  for (const auto& [key, value] : model) records.push_back({key, value});
  ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  if (count == 0) return;
  EXPECT_EQ(store.index().bulk_load(records).error().code, ErrorCode::usage) << "not empty";
  const IntegerRecord last = records.back();
  ASSERT_EQ(store.index().remove(last.key), Outcome::ok);
  ASSERT_EQ(store.index().insert(last.key, last.value), Outcome::ok);
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  if (count < 1000) return;
  const double fill = static_cast<double>(count) / static_cast<double>(store.peer().leaves()) /
                      store.peer().shape().records();
  EXPECT_GT(fill, 0.78);
  EXPECT_LT(fill, 0.9);
}

TEST(LineTree, BulkLoadsAnyNumberOfRecords) {
  for (const std::size_t count : {0U, 1U, 25U, 26U, 27U, 52U, 53U, 5000U}) {
    bulk_loads(count, ~std::uint64_t{0}, "lines=8");
    bulk_loads(count, linetree::boundary - 1, "lines=8");
    bulk_loads(count, 8191, "lines=16");
  }
  bulk_loads(5000, ~std::uint64_t{0}, "lines=32");
}

TEST(LineTree, BulkLoadRefusesDisorderAndFullPools) {
  Integers store;
  const std::vector<IntegerRecord> disorder{{2, 1}, {1, 2}};
  EXPECT_EQ(store.index().bulk_load(disorder).error().code, ErrorCode::usage);
  std::vector<IntegerRecord> many;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) many.push_back({i << 40, i});
  EXPECT_EQ(store.index().bulk_load(many).error().code, ErrorCode::out_of_space);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), {}));  // empty still, and no block is lost
  many.resize(100);
  ASSERT_TRUE(store.index().bulk_load(many).ok());
  EXPECT_EQ(store.index().size(), 100U);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

TEST(LineTree, BatchesAnswerAsSingleLookups) {
  Integers store;
  for (std::uint64_t i = 0; i < 3000; ++i)
    ASSERT_EQ(store.index().insert(mix64(i), i), Outcome::ok);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 4000; i += 3) keys.push_back(mix64(i));
  std::vector<std::uint64_t> values(keys.size(), 7777);
  std::vector<Outcome> outcomes(keys.size());
  store.index().lookup_batch(keys, values, outcomes);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(outcomes[i], 3 * i < 3000 ? Outcome::ok : Outcome::not_found);
    ASSERT_EQ(values[i], 3 * i < 3000 ? 3 * i : 7777) << "an absent key leaves its value alone";
  }
}

TEST(LineTree, RecoversAgainAndAgain) {
  for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk}) {
    Integers store({}, heap, large_pool);
    IntegerModel model;
    for (std::uint64_t i = 0; i < 40000; ++i) model[mix64(i)] = i;
    for (const auto& [key, value] : model) ASSERT_EQ(store.index().insert(key, value), Outcome::ok);
    for (unsigned round = 0; round < 3; ++round) {
      ASSERT_TRUE(succeeds(store.crash()));
      ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
      for (unsigned n = 0; n < 5000; ++n) {
        ASSERT_EQ(store.index().remove(model.begin()->first), Outcome::ok);
        model.erase(model.begin());
      }
    }
  }
}

// What a workload that turns over its keys takes does not grow.
TEST(LineTree, ChurnDoesNotGrowThePool) {
  Integers store({}, HeapKind::slab, large_pool);
  std::uint64_t oldest = 0;
  std::uint64_t newest = 0;
  std::uint64_t most = 0;
  for (unsigned turn = 0; turn < 20; ++turn) {
    for (unsigned n = 0; n < 5000; ++n) ASSERT_EQ(store.index().insert(newest++, n), Outcome::ok);
    while (newest - oldest > 5000) ASSERT_EQ(store.index().remove(oldest++), Outcome::ok);
    store.index().quiesce();
    if (turn == 2) most = store.pool().heap().usage().live_blocks;
  }
  EXPECT_LE(store.pool().heap().usage().live_blocks, most + most / 10);
}

TEST(LineTree, RecoveryAsksForTheOptionItWasMadeWith) {
  Integers store({"lines=8"});
  IndexPlace place = store.place();
  const std::vector<std::string> asked{"lines=16"};
  const auto options = IndexRegistry::options(store.info(), asked);
  ASSERT_TRUE(options.ok());
  place.options = *options;
  auto other = recover_index<IntegerKeys>(store.info(), place);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::foreign);
  auto again = create_index<IntegerKeys>(store.info(), place);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::exists);
  EXPECT_TRUE(succeeds(store.index().check_invariants())) << "the refused creation leaked no block";
}

// Each invariant is broken by hand; the check must name it, and be content once it is mended.
TEST(LineTree, CheckNamesTheBrokenInvariant) {
  Integers store;
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_EQ(store.index().insert(i * 10, i), Outcome::ok);
  auto peer = store.peer();
  Leaf& leaf = peer.leaf_of(1000);
  LeafRecord& record = peer.record(1000);
  const auto breaks = [&](auto& word, auto value, const char* name) {
    const auto kept = word.exchange(value);
    const Result<void> result = store.index().check_invariants();
    ASSERT_FALSE(result.ok()) << name;
    EXPECT_THAT(result.error().what, testing::HasSubstr(name));
    EXPECT_EQ(result.error().code, ErrorCode::corrupt);
    word = kept;
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
  };
  breaks(leaf.lo, leaf.lowest() - 1, "V1");  // of the leaf before
  breaks(leaf.next, peer.next(leaf)->successor(), "V1");
  breaks(record.key, std::uint64_t{5}, "L3");
  breaks(record.key, linetree::empty_key(0), "V3");
  std::uint64_t stranger = leaf.lowest();
  const auto place = peer.place(1000);
  const auto meets = [&](std::uint64_t key) {
    for (const unsigned line : {peer.place(key).home, peer.place(key).overflow()})
      if (line == place.home || line == place.overflow()) return true;
    return false;
  };
  while (meets(stranger)) ++stranger;
  ASSERT_EQ(&peer.leaf_of(stranger), &leaf);
  breaks(record.key, stranger, "L4");
  breaks(peer.info_of(leaf).last, std::uint64_t{1}, "V1");
  breaks(peer.info_of(leaf).count, std::uint16_t{1}, "V3");

  ASSERT_TRUE(peer.lock_of(leaf).try_lock());
  EXPECT_THAT(store.index().check_invariants().error().what, testing::HasSubstr("S1"));
  peer.lock_of(leaf).unlock();

  Reservation stray = store.pool().heap().reserve(256);
  store.pool().heap().publish({&stray, 1});
  EXPECT_THAT(store.index().check_invariants().error().what, testing::HasSubstr("T2"));
  store.pool().heap().free(stray.offset, 256);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

// L4, V2: the same for a record that has overflowed.
TEST(LineTree, CheckNoticesWhatLookupsWouldMiss) {
  Integers store;
  const auto keys = store.peer().keys_in(2, 3, 6);
  for (const std::uint64_t key : keys) ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  auto peer = store.peer();
  linetree::LeafInfo& info = peer.info_of(peer.first());
  EXPECT_TRUE(info.may_overflow(2));
  const std::uint32_t hints = info.hints.exchange(0);
  EXPECT_THAT(store.index().check_invariants().error().what, testing::HasSubstr("V2"));
  info.hints = hints;
  LeafRecord& record = peer.record(keys[5]);
  const std::uint64_t kept = record.key.exchange(keys[0]);
  EXPECT_THAT(store.index().check_invariants().error().what, testing::HasSubstr("L4"));
  record.key = kept;
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

}  // namespace
}  // namespace perdure
