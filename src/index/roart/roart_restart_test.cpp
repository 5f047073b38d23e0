// Roart's instant restart: what may be asked before the walk has ended, and what the walk finds.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/rng.h"
#include "index/common/test_cuts.h"
#include "index/roart/test_support.h"

namespace perdure {
namespace {

using index_test::extract;
using index_test::PowerCuts;
using index_test::Words;
using roart::Entry;
using roart::OpeningLock;
using roart_test::BytesModel;
using roart_test::expect_equal;
using roart_test::IntegerModel;
using roart_test::Model;
using roart_test::Store;
using roart_test::succeeds;

constexpr std::uint64_t many_bytes = std::uint64_t{64} << 20;

const std::vector<std::string> small_arrays{"leaf_entries=4", "workers=0"};

template <class Keys>
auto numbered(std::uint64_t number) {
  if constexpr (Keys::kind == KeyKind::integer)
    return number;
  else
    return std::to_string(number);
}

/// The content, asked without ending the walk.
template <class Keys>
void expect_early(Store<Keys>& store, const Model<Keys>& model) {
  typename Keys::Scan scan;
  ASSERT_EQ(store.index().scan({}, model.size() + 1, scan), model.size());
  std::size_t i = 0;
  typename Keys::ValueOut value{};
  for (const auto& [key, expected] : model) {
    ASSERT_EQ(scan[i].key, key) << "at " << i;
    ASSERT_EQ(scan[i].value, expected) << "at " << i;
    ASSERT_EQ(store.index().lookup(key, value), Outcome::ok);
    ASSERT_EQ(value, expected);
    ++i;
  }
}

/// One random change, or lookup, of a key below `keys`, checked against the model.
template <class Keys>
void random_change(Store<Keys>& store, Model<Keys>& model, Rng& rng, std::uint64_t keys) {
  const auto key = numbered<Keys>(mix64(rng.below(keys)));
  const auto value = numbered<Keys>(rng.below(1000));
  const bool present = model.contains(key);
  typename Keys::ValueOut found{};
  switch (rng.below(5)) {
    case 0:
      ASSERT_EQ(store.index().insert(key, value), present ? Outcome::exists : Outcome::ok);
      if (!present) model[key] = value;
      break;
    case 1:
      ASSERT_EQ(store.index().upsert(key, value), Outcome::ok);
      model[key] = value;
      break;
    case 2:
      ASSERT_EQ(store.index().update(key, value), present ? Outcome::ok : Outcome::not_found);
      if (present) model[key] = value;
      break;
    case 3:
      ASSERT_EQ(store.index().lookup(key, found), present ? Outcome::ok : Outcome::not_found);
      break;
    default:
      ASSERT_EQ(store.index().remove(key), present ? Outcome::ok : Outcome::not_found);
      model.erase(key);
  }
}

template <class Keys>
class RoartRestart : public testing::Test {};
using BothKinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(RoartRestart, BothKinds);

TYPED_TEST(RoartRestart, TouchesAsMuchOfALargeTreeAsOfASmallOne) {
  using Keys = TypeParam;
  for (const std::uint64_t records : {1000U, 30'000U}) {
    Store<Keys> store({"workers=0"}, HeapKind::slab, many_bytes);
    for (std::uint64_t i = 0; i < records; ++i)
      ASSERT_EQ(store.index().insert(numbered<Keys>(mix64(i)), numbered<Keys>(i)), Outcome::ok);
    ASSERT_TRUE(succeeds(store.crash()));
    EXPECT_TRUE(store.pool().is_recovering());
    EXPECT_EQ(store.peer().touched(), 0U);
    typename Keys::ValueOut value{};
    ASSERT_EQ(store.index().lookup(numbered<Keys>(mix64(7)), value), Outcome::ok);
    EXPECT_EQ(store.peer().touched(), 0U) << "a lookup touches nothing";
    store.peer().hold_walk();
    ASSERT_EQ(store.index().update(numbered<Keys>(mix64(7)), numbered<Keys>(8)), Outcome::ok);
    EXPECT_LE(store.peer().touched(), 8U) << "a change touches what is on its way";
    EXPECT_EQ(store.index().size(), records);
    EXPECT_FALSE(store.pool().is_recovering());
    EXPECT_TRUE(succeeds(store.index().check_invariants()));
  }
}

// Random changes on a tree that is touched by them alone, by them and a walk of some arrays a
// change, by a walk that is cut by the next restart, and so on.
TYPED_TEST(RoartRestart, AllOperationsRunBesideTheWalk) {
  using Keys = TypeParam;
  constexpr std::uint64_t keys = 800;
  Rng rng(5);
  Store<Keys> store(small_arrays);
  Model<Keys> model;
  for (unsigned i = 0; i < 1000; ++i)
    ASSERT_NO_FATAL_FAILURE(random_change(store, model, rng, keys));
  for (unsigned round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_TRUE(store.peer().is_walking());
    if (round % 4 != 3) store.peer().hold_walk();
    const std::uint64_t changes = rng.below(400);
    for (std::uint64_t i = 0; i < changes; ++i) {
      ASSERT_NO_FATAL_FAILURE(random_change(store, model, rng, keys));
      if (round % 4 == 1) store.peer().walk(1 + static_cast<unsigned>(rng.below(2)));
      if (i % 97 == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_early(store, model));
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_early(store, model));
    if (round % 3 == 0) continue;                                 // cut in the middle
    ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));  // and no block is lost
    EXPECT_FALSE(store.peer().is_walking());
  }
}

// The same by several threads, each with its own keys; the walk is slow, or a worker's.
TYPED_TEST(RoartRestart, ThreadsRunBesideTheWalk) {
  using Keys = TypeParam;
  constexpr unsigned threads = 3;
  constexpr std::uint64_t own = 400;
  for (const char* workers : {"workers=0", "workers=1"}) {
    Store<Keys> store({"leaf_entries=4", workers});
    std::vector<Model<Keys>> models(threads);
    for (unsigned round = 0; round < 8; ++round) {
      if (round > 0) {
        ASSERT_TRUE(succeeds(store.crash()));
      }
      store.peer().hold_walk();
      std::atomic<unsigned> running{threads};
      std::atomic<std::uint64_t> wrong{0};
      std::vector<std::thread> team;
      for (unsigned t = 0; t < threads; ++t)
        team.emplace_back([&, t] {
          Rng rng(round, t);
          typename Keys::Scan scan;
          for (unsigned i = 0; i < 1500; ++i) {
            const auto key = numbered<Keys>(mix64(rng.below(own) * threads + t));
            const auto value = numbered<Keys>(i);
            Outcome outcome = Outcome::ok;
            if (rng.below(2) == 0) {
              outcome = store.index().upsert(key, value);
              models[t][key] = value;
              wrong += outcome == Outcome::ok ? 0 : 1;
            } else {
              outcome = store.index().remove(key);
              wrong += (outcome == Outcome::ok) == (models[t].erase(key) == 1) ? 0 : 1;
            }
            if (i % 100 == 0) store.index().scan(key, 50, scan);
          }
          --running;
        });
      while (running > 0) store.peer().walk(1);
      for (std::thread& thread : team) thread.join();
      ASSERT_EQ(wrong, 0U);
      Model<Keys> all;
      for (const Model<Keys>& model : models) all.insert(model.begin(), model.end());
      ASSERT_NO_FATAL_FAILURE(expect_early(store, all));
      ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), all));
    }
  }
}

// T8: what a cut left over, and what is freed now, is room again once the walk has ended; a change
// that finds no other waits for that.
TYPED_TEST(RoartRestart, RoomIsLookedForBeforeThePoolIsFull) {
  using Keys = TypeParam;
  for (const char* workers : {"workers=0", "workers=1"}) {
    Store<Keys> store({"leaf_entries=4", workers});
    std::uint64_t full = 0;
    while (store.index().insert(numbered<Keys>(mix64(full)), numbered<Keys>(full)) == Outcome::ok)
      ++full;
    const std::uint64_t kept = full / 4;
    for (std::uint64_t i = kept; i < full; ++i)
      ASSERT_EQ(store.index().remove(numbered<Keys>(mix64(i))), Outcome::ok);
    ASSERT_TRUE(succeeds(store.crash()));
    store.peer().hold_walk();
    for (std::uint64_t i = kept; i < full / 10 * 9; ++i)
      ASSERT_EQ(store.index().insert(numbered<Keys>(mix64(i)), numbered<Keys>(i)), Outcome::ok)
          << i;
    EXPECT_FALSE(store.pool().is_recovering());
    EXPECT_EQ(store.index().size(), full / 10 * 9);
    EXPECT_TRUE(succeeds(store.index().check_invariants()));
  }
}

// T8: who is pinned since before the walk's end may still read what is left over.
TYPED_TEST(RoartRestart, TheSweepWaitsForReaders) {
  using Keys = TypeParam;
  Store<Keys> store(small_arrays);
  for (unsigned i = 0; i < 100; ++i)
    ASSERT_EQ(store.index().insert(numbered<Keys>(i), numbered<Keys>(i)), Outcome::ok);
  ASSERT_TRUE(succeeds(store.crash()));
  std::atomic<bool> pinned{false};
  std::atomic<bool> lets_go{false};
  std::thread reader([&] {
    const auto guard = store.peer().pin();
    pinned = true;
    while (!lets_go) std::this_thread::yield();
  });
  while (!pinned) std::this_thread::yield();
  std::thread walker([&] { store.index().quiesce(); });
  while (store.peer().touched() < store.peer().arrays()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(store.pool().is_recovering());
  lets_go = true;
  reader.join();
  walker.join();
  EXPECT_FALSE(store.pool().is_recovering());
}

// T2, T7: the old array of a cut split, untouched, gets the range of its right half back when that
// is emptied; what it still leads to must not come back.
TYPED_TEST(RoartRestart, LeftoversStayGoneWhenTheArrayBesideIsReclaimed) {
  using Keys = TypeParam;
  Store<Keys> store(small_arrays);
  Model<Keys> model;
  const auto key = [](unsigned number) {
    if constexpr (Keys::kind == KeyKind::integer)
      return std::uint64_t{number};
    else
      return std::string(1, '\0') + static_cast<char>(number);
  };
  for (unsigned i = 1; i <= 6; ++i) {
    ASSERT_EQ(store.index().insert(key(i), key(i)), Outcome::ok);
    model[key(i)] = key(i);
  }
  const auto [node, old] = store.peer().place_of(key(6));
  const std::uint64_t old_word = store.pool().offset_of(&node->word_of(old));
  PowerCuts<Keys> cuts(store);
  ASSERT_EQ(store.index().insert(key(7), key(7)), Outcome::ok);
  ASSERT_EQ(store.index().remove(key(6)), Outcome::ok);
  model[key(7)] = key(7);
  model.erase(key(6));
  Words words = cuts.changed();
  ASSERT_EQ(extract(words, old_word).size(), 1U);
  ASSERT_TRUE(succeeds(cuts.cut(words)));
  store.peer().hold_walk();
  ASSERT_NO_FATAL_FAILURE(expect_early(store, model));
  const Entry right = store.peer().place_of(key(7)).second;
  ASSERT_NE(right.symbol(), 0U);
  while (!model.empty() && store.peer().place_of(model.rbegin()->first).second == right) {
    ASSERT_EQ(store.index().remove(model.rbegin()->first), Outcome::ok);
    model.erase(std::prev(model.end()));
    ASSERT_NO_FATAL_FAILURE(expect_early(store, model));
  }
  ASSERT_TRUE(store.peer().is_walking());
  typename Keys::ValueOut value{};
  for (unsigned i = 5; i <= 7; ++i)
    EXPECT_EQ(store.index().lookup(key(i), value),
              model.contains(key(i)) ? Outcome::ok : Outcome::not_found);
  expect_equal(store.index(), model);
}

// K1: what a lock said before the restart means nothing.
TYPED_TEST(RoartRestart, LocksOfBeforeAreFree) {
  using Keys = TypeParam;
  Store<Keys> store(small_arrays);
  Model<Keys> model;
  Rng rng(9);
  for (unsigned i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(random_change(store, model, rng, 300));
  unsigned number = 0;
  store.peer().for_each_lock([&](OpeningLock& lock, bool) {
    // Locked, obsolete, or both; and of every fourth a power cut stopped the taking over.
    const std::uint64_t marked = std::uint64_t{number % 4 == 0 ? OpeningLock::taking_over : 0U}
                                 << OpeningLock::opening_shift;
    lock.put(lock.peek() | marked | (number++ % 3 + 1));
  });
  ASSERT_TRUE(succeeds(store.crash()));
  store.peer().hold_walk();
  ASSERT_NO_FATAL_FAILURE(expect_early(store, model));
  for (unsigned i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(random_change(store, model, rng, 300));
  expect_equal(store.index(), model);
}

// K2: where the numbers begin again, one opening walks first, and leaves no old number.
TYPED_TEST(RoartRestart, NumbersOfOpeningsComeRound) {
  using Keys = TypeParam;
  constexpr std::uint32_t round = OpeningLock::most_openings;
  Store<Keys> store(small_arrays);
  Model<Keys> model;
  Rng rng(11);
  for (unsigned i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(random_change(store, model, rng, 300));
  ASSERT_TRUE(succeeds(store.crash()));
  store.peer().restart().set_openings(round - 2);
  ASSERT_TRUE(succeeds(store.crash()));
  EXPECT_EQ(store.peer().opening(), round - 1);
  EXPECT_TRUE(store.peer().is_walking());
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  store.peer().for_each_lock([](OpeningLock& lock, bool) { lock.reset(1); });  // of the last round
  ASSERT_TRUE(succeeds(store.crash()));
  EXPECT_EQ(store.peer().opening(), 0U);
  EXPECT_FALSE(store.peer().is_walking());
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  EXPECT_EQ(store.peer().opening(), 1U);
  EXPECT_TRUE(store.peer().is_walking());
  EXPECT_EQ(store.peer().touched(), 0U);
  for (unsigned i = 0; i < 300; ++i) ASSERT_NO_FATAL_FAILURE(random_change(store, model, rng, 300));
  expect_equal(store.index(), model);
}

// T9: damage is found when it is met, or by the walk; then the index refuses everything, and the
// pool is not closed as clean.
TYPED_TEST(RoartRestart, DamageEndsTheService) {
  using Keys = TypeParam;
  for (const bool by_walk : {false, true}) {
    Store<Keys> store(small_arrays);
    for (unsigned i = 0; i < 300; ++i)
      ASSERT_EQ(store.index().insert(numbered<Keys>(mix64(i)), numbered<Keys>(i)), Outcome::ok);
    const auto key = numbered<Keys>(mix64(77));
    auto& slot = store.peer().slot_of(key);
    slot.store(roart::Slot(roart::Slot(slot.load()).fingerprint(), std::uint64_t{1} << 40).word());
    ASSERT_TRUE(succeeds(store.crash()));
    typename Keys::ValueOut value{};
    typename Keys::Scan scan;
    if (by_walk) {
      store.index().quiesce();
    } else {
      store.peer().hold_walk();
      EXPECT_EQ(store.index().lookup(numbered<Keys>(mix64(78)), value), Outcome::ok);
      EXPECT_EQ(store.index().lookup(key, value), Outcome::invalid);
    }
    EXPECT_EQ(store.index().lookup(numbered<Keys>(mix64(78)), value), Outcome::invalid);
    EXPECT_EQ(store.index().insert(numbered<Keys>(1U), numbered<Keys>(1U)), Outcome::invalid);
    EXPECT_EQ(store.index().remove(numbered<Keys>(mix64(78))), Outcome::invalid);
    EXPECT_EQ(store.index().scan({}, 10, scan), 0U);
    const Result<void> checked = store.index().check_invariants();
    ASSERT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().code, ErrorCode::corrupt);
    EXPECT_TRUE(store.pool().is_recovering());
    ASSERT_TRUE(succeeds(store.pool().close()));
    EXPECT_TRUE(succeeds(store.crash()));
    EXPECT_FALSE(store.pool().was_clean());
  }
}

// Another root's blocks are not ours to mark, so the pool is not served before all have recovered.
TEST(RoartRestartPool, WaitsForOtherRoots) {
  Store<IntegerKeys> store(small_arrays);
  ASSERT_EQ(store.index().insert(1, 1), Outcome::ok);
  Reservation block = store.pool().heap().reserve(64);
  ASSERT_TRUE(succeeds(store.pool().add_root("other", block)));
  ASSERT_TRUE(succeeds(store.crash()));
  EXPECT_FALSE(store.pool().is_recovering());
  EXPECT_FALSE(store.pool().ready());
  ASSERT_TRUE(succeeds(store.pool().root_recovered("other")));
  std::uint64_t value = 0;
  EXPECT_EQ(store.index().lookup(1, value), Outcome::ok);
  EXPECT_EQ(store.index().insert(2, 2), Outcome::ok);
}

}  // namespace
}  // namespace perdure
