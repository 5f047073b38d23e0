#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "core/rng.h"
#include "index/pactree/test_support.h"

namespace perdure {
namespace {

using namespace std::string_literals;
using pactree_test::BytesModel;
using pactree_test::expect_equal;
using pactree_test::IntegerModel;
using pactree_test::make;
using pactree_test::Model;
using pactree_test::Store;
using pactree_test::succeeds;

// T1: keys around the ends of the range, the lowest of which is the first node's anchor.
TEST(PacTree, ExtremeIntegersSortAsUnsigned) {
  Store<IntegerKeys> store({"node_entries=4"});
  IntegerModel model;
  for (const std::uint64_t base : {std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0} - 9})
    for (std::uint64_t i = 0; i < 10; ++i) {
      ASSERT_EQ(store.index().insert(base + i, i), Outcome::ok);
      model[base + i] = i;
    }
  expect_equal(store.index(), model);
}

// L5, S5: a key that begins another, zero bytes, and paths that end at a node (`here`).
TEST(PacTree, StringsThatBeginOthersKeepTheirOrder) {
  Store<ByteKeys> store({"node_entries=4"});
  BytesModel model;
  std::vector<std::string> keys{""s, "\0"s, "\0\0"s};
  for (unsigned length = 0; length < 60; ++length) {
    keys.push_back(std::string(length, 'a'));
    keys.push_back("aaaaaaaa" + std::string(length, '\0'));
    keys.push_back("aaaaaaaa" + std::string(length, '\xff'));
  }
  keys.push_back(std::string(2048, 'a'));
  keys.push_back(std::string(2047, 'a') + 'b');
  Rng rng(3);
  for (std::size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[rng.below(i)]);
  for (const std::string& key : keys) {
    const bool fresh = model.emplace(key, key + "!").second;
    ASSERT_EQ(store.index().insert(key, key + "!"), fresh ? Outcome::ok : Outcome::exists);
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// G4: who finds the log full has to know whether waiting helps.
TEST(PacTree, TheLogTellsWhetherItsOldestEntryWaitsForRoom) {
  using pactree::SmoLog;
  Store<IntegerKeys> store({"workers=0"});
  SmoLog& log = store.peer().log();
  const auto after = [](std::uint64_t) {};
  const std::uint64_t oldest = log.take(SmoLog::bulk_load);
  for (unsigned i = 1; i < SmoLog::entries; ++i) log.finish(log.take(SmoLog::bulk_load));
  ASSERT_EQ(log.take(SmoLog::bulk_load), SmoLog::none);
  EXPECT_EQ(log.oldest_ready(), SmoLog::none);  // its thread is at work
  log.finish(oldest);
  EXPECT_EQ(log.drain([](std::uint64_t) { return false; }, after), 0U);
  EXPECT_EQ(log.oldest_ready(), oldest);
  EXPECT_EQ(log.drain([](std::uint64_t) { return true; }, after), SmoLog::entries);
  EXPECT_EQ(log.oldest_ready(), SmoLog::none);
  EXPECT_TRUE(log.is_empty());
}

// K1: byte 0 of the anchors takes a node through all four sizes; byte 1 does so below it.
TEST(PacTree, SearchLayerGrowsAndShrinks) {
  Store<IntegerKeys> store({"node_entries=4", "workers=0"});
  IntegerModel model;
  Rng rng(9);
  for (unsigned i = 0; i < 20'000; ++i) {
    const std::uint64_t key = std::uint64_t{42} << 56 | rng.below(1 << 16) << 40 | i % 7;
    if (store.index().insert(key, i) == Outcome::ok) model[key] = i;
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  for (auto at = model.begin(); at != model.end();) {
    ASSERT_EQ(store.index().remove(at->first), Outcome::ok);
    at = model.erase(at);
    if (at != model.end() && at->first % 3 == 0) ++at;
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  for (const auto& [key, value] : model) ASSERT_EQ(store.index().remove(key), Outcome::ok);
  ASSERT_TRUE(succeeds(store.index().check_invariants()));
  EXPECT_EQ(store.peer().nodes(), 1U);
  EXPECT_EQ(store.peer().trie().find(std::string(8, '\x80')), null_offset);
}

// T3: with a search layer that knows nothing, or leads to what was merged, every key is found.
TEST(PacTree, FindsKeysWhileTheSearchLayerLags) {
  Store<IntegerKeys> store({"node_entries=16", "workers=0"});
  IntegerModel model;
  ASSERT_TRUE(store.peer().hold_replay());
  for (std::uint64_t key = 0; key < 1000; ++key) {
    ASSERT_EQ(store.index().insert(mix64(key), key), Outcome::ok);
    model[mix64(key)] = key;
  }
  EXPECT_EQ(store.peer().trie().find(std::string(8, '\xff')), null_offset);
  std::uint64_t value = 0;
  for (const auto& [key, expected] : model) {
    ASSERT_EQ(store.index().lookup(key, value), Outcome::ok);
    ASSERT_EQ(value, expected);
  }
  store.peer().release_replay();
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(store.peer().hold_replay());
  for (std::uint64_t key = 0; key < 1000; ++key) {
    if (key % 10 != 0) {
      ASSERT_EQ(store.index().remove(mix64(key)), Outcome::ok);
      model.erase(mix64(key));
    }
  }
  for (const auto& [key, expected] : model)
    ASSERT_EQ(store.index().lookup(key, value), Outcome::ok);
  store.peer().release_replay();
  expect_equal(store.index(), model);
}

// T6: the worker replays what the operations left, and the log is empty in the end.
TEST(PacTree, TheWorkerReplaysTheLog) {
  Store<IntegerKeys> store({"node_entries=4", "workers=1"});
  for (std::uint64_t key = 0; key < 5000; ++key)
    ASSERT_EQ(store.index().insert(mix64(key), key), Outcome::ok);
  for (pm::Backoff backoff; !store.peer().log().is_empty();) backoff.wait();
  EXPECT_NE(store.peer().trie().find(std::string(8, '\xff')), null_offset);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

TEST(PacTree, AscendingInsertionsFillNodes) {
  Store<IntegerKeys> store;
  for (std::uint64_t key = 0; key < 6400; ++key)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  EXPECT_EQ(store.peer().nodes(), 100U);
}

// G2: after a restart the log says what the search layer lacks; each entry is as good as the other.
template <class Keys>
void recovers_with_a_full_log(bool merges) {
  Store<Keys> store({"node_entries=8", "workers=0"});
  Model<Keys> model;
  if (merges)
    for (std::uint64_t number = 0; number < 400; ++number) {
      const auto key = make<Keys>(number);
      ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
      model[key] = key;
    }
  store.index().quiesce();
  ASSERT_TRUE(store.peer().hold_replay());
  for (std::uint64_t number = 0; number < 400; ++number) {
    const auto key = make<Keys>(number);
    if (!merges) {
      ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
      model[key] = key;
    } else if (number % 8 != 0) {
      ASSERT_EQ(store.index().remove(key), Outcome::ok);
      model.erase(key);
    }
  }
  ASSERT_GT(store.peer().log().found().size(), 20U);
  std::vector<std::uint64_t> media(store.pool().bytes() / 8);
  std::memcpy(media.data(), store.pool().base(), 8 * media.size());
  store.peer().release_replay();
  ASSERT_TRUE(succeeds(store.crash([&](const std::string& path) {
    std::FILE* const file = std::fopen(path.c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(std::fwrite(media.data(), 8, media.size(), file), media.size());
    std::fclose(file);
  })));
  EXPECT_TRUE(store.peer().log().found().empty());
  expect_equal(store.index(), model);
}
TEST(PacTree, RecoveryReplaysSplits) {
  recovers_with_a_full_log<IntegerKeys>(false);
  recovers_with_a_full_log<ByteKeys>(false);
}
TEST(PacTree, RecoveryReplaysMerges) {
  recovers_with_a_full_log<IntegerKeys>(true);
  recovers_with_a_full_log<ByteKeys>(true);
}

// T5: nodes that merge are freed with their anchors.
TEST(PacTree, MergedNodesAreFreed) {
  Store<ByteKeys> store({"node_entries=8"});
  const std::uint64_t blocks = store.pool().heap().usage().live_blocks;
  for (std::uint64_t number = 0; number < 500; ++number)
    ASSERT_EQ(store.index().insert(make<ByteKeys>(number), "value"), Outcome::ok);
  for (std::uint64_t number = 0; number < 500; ++number)
    ASSERT_EQ(store.index().remove(make<ByteKeys>(number)), Outcome::ok);
  store.index().quiesce();
  EXPECT_EQ(store.pool().heap().usage().live_blocks, blocks);
}

TEST(PacTree, BulkLoadThatDoesNotFitLeavesNothing) {
  Store<ByteKeys> store;
  index_test::expect_too_large_a_bulk_load_leaves_nothing(store);
}

// Each invariant that the check names is one that it finds.
// What the public code leaves out can be had.
TEST(PacTree, AsPublishedScansHalf) {
  Store<IntegerKeys> store({"as_published=1"});
  for (std::uint64_t key = 0; key < 300; ++key)
    ASSERT_EQ(store.index().insert(key, ~key), Outcome::ok);
  IntegerScan scan;
  EXPECT_EQ(store.index().scan(7, 100, scan), 50U);
  EXPECT_EQ(scan[49].key, 56U);
  EXPECT_EQ(store.index().scan(7, 1, scan), 1U);
  EXPECT_EQ(store.index().scan(7, 0, scan), 0U);
  ASSERT_TRUE(succeeds(store.crash())) << "it is no matter of the layout";
}

TEST(PacTree, CheckNamesTheBrokenInvariant) {
  const auto names = [](const char* invariant, auto&& damage) {
    Store<IntegerKeys> store({"node_entries=4", "workers=0"});
    for (std::uint64_t key = 10; key < 200; key += 10)
      EXPECT_EQ(store.index().insert(key, key), Outcome::ok);
    EXPECT_TRUE(succeeds(store.index().check_invariants()));
    damage(store);
    const Result<void> checked = store.index().check_invariants();
    const std::string line = checked.ok() ? "nothing" : checked.error().line();
    EXPECT_NE(line.find(std::string(invariant) + ":"), std::string::npos) << line;
  };
  names("L9", [](auto& store) { (void)store.peer().node_of(50).lock.lock(); });
  names("L8", [](auto& store) { store.peer().node_of(50).prev = 0; });
  names("L8", [](auto& store) { store.peer().node_of(50).high = 1; });
  names("L1", [](auto& store) { store.peer().node_of(50).commit |= 1 << 10; });
  names("L3", [](auto& store) { store.peer().record_of(50).key = 51; });
  names("T1", [](auto& store) {
    auto& node = store.peer().node_of(50);
    node.commit = 0;
    node.fill_slot(0, {5, 5}, hash_of(std::uint64_t{5}));
    node.commit = 1;
  });
  names("T2", [](auto& store) {
    auto& node = store.peer().node_of(50);
    const std::uint64_t anchor = __builtin_bswap64(node.anchor.load().key);
    store.peer().trie().forget({reinterpret_cast<const char*>(&anchor), 8},
                               store.pool().offset_of(&node));
  });
  names("T5", [](auto& store) {
    Reservation block = store.pool().heap().reserve(32);
    store.pool().heap().publish({&block, 1});
  });
}

// T3, G3: threads insert, remove and look up while nodes split and merge all the time.
template <class Keys>
void survives_threads(const char* workers) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys = 400;
  Store<Keys> store({"node_entries=4", workers});
  std::vector<Model<Keys>> models(threads);
  std::vector<std::thread> team;
  for (unsigned t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      Rng rng(5, t);
      typename Keys::ValueOut value{};
      for (unsigned step = 0; step < 4000; ++step) {
        const auto key = make<Keys>(rng.below(keys / threads) * threads + t);
        const bool present = models[t].contains(key);
        EXPECT_EQ(store.index().lookup(key, value), present ? Outcome::ok : Outcome::not_found);
        if (rng.below(2) == 0) {
          EXPECT_EQ(store.index().insert(key, key), present ? Outcome::exists : Outcome::ok);
          models[t][key] = key;
        } else {
          EXPECT_EQ(store.index().remove(key), present ? Outcome::ok : Outcome::not_found);
          models[t].erase(key);
        }
      }
    });
  for (std::thread& thread : team) thread.join();
  Model<Keys> all;
  for (const Model<Keys>& model : models) all.insert(model.begin(), model.end());
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), all));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), all);
}
TEST(PacTree, ThreadsSplitAndMerge) {
  for (const char* workers : {"workers=0", "workers=1"}) {
    survives_threads<IntegerKeys>(workers);
    survives_threads<ByteKeys>(workers);
  }
}

}  // namespace
}  // namespace perdure
