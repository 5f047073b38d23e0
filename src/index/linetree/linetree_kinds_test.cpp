// LineTree against a model: random operations of each kind of records; of byte strings and slots
// keys and values of all lengths, prefixes, full pools, bulk loads, space, and what
// check_invariants notices.
#include <gmock/gmock.h>

#include "index/common/test_keys.h"
#include "index/linetree/linetree.h"
#include "index/linetree/test_support.h"

namespace perdure {
namespace {

using index_test::random_key;
using index_test::random_value;
using linetree_test::expect_equal;
using linetree_test::large_pool;
using linetree_test::Model;
using linetree_test::name;
using linetree_test::Slots;
using linetree_test::Store;
using linetree_test::StringCase;
using linetree_test::Strings;
using linetree_test::succeeds;
using namespace std::string_literals;
using Leaf = linetree::Leaf;

template <class Keys>
void random_changes(std::uint64_t seed, unsigned steps, const char* lines) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Store<Keys> store({"inner_entries=3", lines}, HeapKind::slab, large_pool);
  Model<Keys> model;
  Rng rng(seed);
  typename Keys::ValueOut out{};
  typename Keys::Scan scan;
  for (unsigned step = 0; step < steps; ++step) {
    auto& index = store.index();
    const auto key = random_key<Keys>(rng);
    const auto value = random_value<Keys>(rng);
    const bool present = model.contains(key);
    // Growing and shrinking phases take turns, so that leaves split and merge.
    const std::uint64_t kind = rng.below(10) + (step / 1000 % 2 == 0 ? 0 : 4);
    if (kind < 4) {
      ASSERT_EQ(index.insert(key, value), present ? Outcome::exists : Outcome::ok);
      model.emplace(key, value);
    } else if (kind == 4) {
      ASSERT_EQ(index.upsert(key, value), Outcome::ok);
      model[key] = value;
    } else if (kind == 5) {
      ASSERT_EQ(index.update(key, value), present ? Outcome::ok : Outcome::not_found);
      if (present) model[key] = value;
    } else if (kind == 6) {
      ASSERT_EQ(index.lookup(key, out), present ? Outcome::ok : Outcome::not_found);
      if (present) {
        ASSERT_EQ(out, model[key]);
      }
    } else if (kind == 7) {
      const std::size_t count = rng.below(60);
      index.scan(key, count, scan);
      auto expected = model.lower_bound(key);
      std::size_t i = 0;
      for (; i < count && expected != model.end(); ++i, ++expected) {
        ASSERT_LT(i, scan.size());
        ASSERT_EQ(scan[i].key, expected->first);
        ASSERT_EQ(scan[i].value, expected->second);
      }
      ASSERT_EQ(scan.size(), i);
    } else {
      ASSERT_EQ(index.remove(key), present ? Outcome::ok : Outcome::not_found);
      model.erase(key);
    }
    if (step % 500 == 499) {
      ASSERT_NO_FATAL_FAILURE(expect_equal(index, model));
    }
    if (step % 3000 == 2999) {
      ASSERT_TRUE(succeeds(store.crash()));
    }
  }
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  while (!model.empty()) {
    ASSERT_EQ(store.index().remove(model.begin()->first), Outcome::ok);
    model.erase(model.begin());
  }
  expect_equal(store.index(), model);
  EXPECT_EQ(store.peer().leaves(), has_text_keys<Keys> ? 1U : 2U)
      << "leaves without records are merged away";
}

TEST(LineTreeKinds, RandomIntegersAgreeWithTheModel) {
  random_changes<IntegerKeys>(11, 20000, "lines=4");
  random_changes<IntegerKeys>(12, 20000, "lines=8");
  random_changes<IntegerKeys>(13, 10000, "lines=16");
  random_changes<IntegerKeys>(14, 10000, "lines=32");
}
TEST(LineTreeKinds, RandomStringsAgreeWithTheModel) {
  random_changes<ByteKeys>(21, 12000, "lines=4");
  random_changes<ByteKeys>(22, 12000, "lines=8");
  random_changes<ByteKeys>(23, 6000, "lines=32");
}
TEST(LineTreeKinds, RandomSlotsAgreeWithTheModel) {
  random_changes<SlotKeys>(31, 12000, "lines=4");
  random_changes<SlotKeys>(32, 12000, "lines=8");
}

TEST(LineTreeKinds, KeysAndValuesOfAllLengths) {
  Strings store({"lines=4"}, HeapKind::slab, large_pool);
  linetree_test::BytesModel model;
  const auto put = [&](const std::string& key, const std::string& value) {
    ASSERT_EQ(store.index().upsert(key, value), Outcome::ok);
    model[key] = value;
  };
  const std::string longest(max_key_bytes, '\xff');
  ASSERT_NO_FATAL_FAILURE(put("", ""));
  ASSERT_NO_FATAL_FAILURE(put(longest, std::string(max_value_bytes, 'v')));
  for (std::size_t length = 1; length < 40; ++length) {
    ASSERT_NO_FATAL_FAILURE(put(std::string(length, '\0'), std::string(length * 1600, 'x')));
    ASSERT_NO_FATAL_FAILURE(put(std::string(length, 'a'), ""));
    ASSERT_NO_FATAL_FAILURE(put(longest.substr(length), "\0"s));
    ASSERT_NO_FATAL_FAILURE(put("a\0"s + std::string(length, '\0'), "a\0b"s));
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  EXPECT_EQ(store.index().insert(longest + "z", ""), Outcome::invalid);
  EXPECT_EQ(store.index().upsert("z", std::string(max_value_bytes + 1, 'v')), Outcome::invalid);
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  for (const char* const key : {"", "a"}) {
    ASSERT_EQ(store.index().remove(key), Outcome::ok);
    model.erase(key);
    EXPECT_EQ(store.index().remove(key), Outcome::not_found);
  }
  expect_equal(store.index(), model);

  Slots slots;
  EXPECT_EQ(slots.index().insert(1, std::string(max_slot_value_bytes, 's')), Outcome::ok);
  EXPECT_EQ(slots.index().insert(2, std::string(max_slot_value_bytes + 1, 's')), Outcome::invalid);
  EXPECT_EQ(slots.index().insert(3, ""), Outcome::ok);
  expect_equal<SlotKeys>(slots.index(), {{1, std::string(max_slot_value_bytes, 's')}, {3, ""}});
}

// Slices tie in all slots, so only tags and blobs tell keys apart; leaves fill as with others.
TEST(LineTreeKinds, KeysThatShareTheirPrefix) {
  Strings store({"lines=8"}, HeapKind::slab, large_pool);
  linetree_test::BytesModel model;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::string key = name(mix64(i) % 10'000'000);
    ASSERT_EQ(store.index().upsert(key, key), Outcome::ok);
    model[key] = key;
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  EXPECT_LT(static_cast<double>(store.peer().leaves()), 5000 / (0.5 * 31)) << "half full";
  std::string value;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::string key = name(mix64(~i) % 10'000'000);
    ASSERT_EQ(store.index().lookup(key, value) == Outcome::ok, model.contains(key));
  }
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

template <class Keys, class KeyOf>
void fills_pool(HeapKind heap, KeyOf&& key_of) {
  Store<Keys> store({}, heap);
  Model<Keys> model;
  Outcome outcome = Outcome::ok;
  std::uint64_t i = 0;
  const std::string value(100, 'v');
  for (; outcome == Outcome::ok; ++i) {
    outcome = store.index().insert(key_of(i), value);
    if (outcome == Outcome::ok) model.emplace(key_of(i), value);
  }
  ASSERT_EQ(outcome, Outcome::out_of_space);
  ASSERT_GT(model.size(), 1000U);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  EXPECT_EQ(store.index().insert(model.begin()->first, {}), Outcome::exists);
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  // What is removed makes room again.
  for (unsigned n = 0; n < 500; ++n) {
    ASSERT_EQ(store.index().remove(model.begin()->first), Outcome::ok);
    model.erase(model.begin());
  }
  for (unsigned n = 0; n < 100; ++n, ++i) {
    ASSERT_EQ(store.index().insert(key_of(i), value), Outcome::ok);
    model[key_of(i)] = value;
  }
  expect_equal(store.index(), model);
}

TEST(LineTreeKinds, FullPoolsAreAnErrorAndLoseNothing) {
  for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk}) {
    fills_pool<ByteKeys>(heap, [](std::uint64_t i) { return name(i * 7654321 % 100000000); });
    fills_pool<SlotKeys>(heap, [](std::uint64_t i) { return mix64(i); });
  }
}

// Keys turn over, values are replaced: neither takes more and more blocks.
template <class Keys, class KeyOf>
void churns(KeyOf&& key_of) {
  Store<Keys> store({}, HeapKind::slab, large_pool);
  std::uint64_t oldest = 0;
  std::uint64_t newest = 0;
  std::uint64_t most = 0;
  for (unsigned turn = 0; turn < 10; ++turn) {
    for (unsigned n = 0; n < 3000; ++n) {
      ASSERT_EQ(store.index().insert(key_of(newest++), "value"), Outcome::ok);
      ASSERT_EQ(store.index().update(key_of(newest - 1), "other"), Outcome::ok);
    }
    while (newest - oldest > 3000) ASSERT_EQ(store.index().remove(key_of(oldest++)), Outcome::ok);
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
    if (turn == 2) most = store.pool().heap().usage().live_blocks;
  }
  EXPECT_LE(store.pool().heap().usage().live_blocks, most + most / 10);
}

TEST(LineTreeKinds, ChurnDoesNotGrowThePool) {
  churns<ByteKeys>(name);
  churns<SlotKeys>([](std::uint64_t i) { return i; });
}

TEST(LineTreeKinds, BulkLoadsAnyNumberOfRecords) {
  for (const std::size_t count : {1U, 25U, 26U, 27U, 3000U}) {
    SCOPED_TRACE(count);
    linetree_test::BytesModel texts;
    linetree_test::SlotModel slots;
    for (std::size_t i = 0; i < count; ++i) {
      texts[name(mix64(i) % 1'000'000)] = std::to_string(i);
      slots[mix64(i)] = std::to_string(i);
    }
    const auto load = [&](auto& store, const auto& model, auto records) {
      for (const auto& [key, value] : model) records.push_back({key, value});
      ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
      ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
      EXPECT_EQ(store.index().bulk_load(records).error().code, ErrorCode::usage) << "not empty";
      ASSERT_TRUE(succeeds(store.crash()));
      expect_equal(store.index(), model);
    };
    Strings of_texts;
    ASSERT_NO_FATAL_FAILURE(load(of_texts, texts, std::vector<BytesRecord>{}));
    Slots of_slots;
    ASSERT_NO_FATAL_FAILURE(load(of_slots, slots, std::vector<SlotRecord>{}));
  }
}

TEST(LineTreeKinds, TooLargeABulkLoadLeavesNothing) {
  Strings store;
  linetree_test::expect_too_large_a_bulk_load_leaves_nothing(store);
}

TEST(LineTreeKinds, BatchesAnswerAsSingleLookups) {
  Strings store;
  for (std::uint64_t i = 0; i < 1000; ++i)
    ASSERT_EQ(store.index().insert(name(i), std::to_string(i)), Outcome::ok);
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < 1500; i += 3) texts.push_back(name(i));
  const std::vector<std::string_view> keys(texts.begin(), texts.end());
  std::vector<std::string> values(keys.size(), "untouched");
  std::vector<Outcome> outcomes(keys.size());
  store.index().lookup_batch(keys, values, outcomes);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(outcomes[i], 3 * i < 1000 ? Outcome::ok : Outcome::not_found);
    ASSERT_EQ(values[i], 3 * i < 1000 ? std::to_string(3 * i) : "untouched");
  }
}

// Each invariant is broken by hand; the check must name it, and be content once it is mended.
TEST(LineTreeKinds, CheckNamesTheBrokenInvariant) {
  StringCase test({"lines=4"});
  for (std::uint64_t i = 0; i < 60; ++i) test.insert(i);
  auto& index = test.store.index();
  auto peer = test.store.peer();
  Leaf& leaf = peer.leaf_of(name(40));
  ASSERT_NE(leaf.lowest(), 0U);
  LeafRecord& record = peer.record(name(40));
  const std::uint64_t before = peer.record(name(0)).value;
  const auto breaks = [&](auto& word, std::uint64_t value, const char* invariant) {
    const std::uint64_t kept = word.exchange(value);
    const Result<void> result = index.check_invariants();
    ASSERT_FALSE(result.ok()) << invariant;
    EXPECT_THAT(result.error().what, testing::HasSubstr(invariant));
    word = kept;
    ASSERT_TRUE(succeeds(index.check_invariants()));
  };
  breaks(record.key, 5, "L6");                                        // not the key's slice
  breaks(record.value, record.value ^ std::uint64_t{1} << 48, "L6");  // not its tag
  breaks(record.value, std::uint64_t{1} << 40, "L6");                 // no blob
  breaks(record.value, before, "L3");
  breaks(record.value, 0, "V3");
  const Leaf* const next = peer.next(leaf);
  ASSERT_NE(next, nullptr);
  breaks(record.value, peer.record(name(59)).value, "L6");  // stale
  breaks(leaf.lo, next->lowest(), "T1");
  breaks(leaf.next, null_offset, "T1");
  LeafRecord* empty = nullptr;
  const unsigned home = peer.place(name(40)).home;
  for (unsigned i = home == 0 ? 1 : 0; i < linetree::line_slots; ++i)
    if (LeafRecord& slot = leaf.slot(home * linetree::line_slots + i); slot.value == 0)
      empty = &slot;
  if (empty != nullptr) {
    empty->key = record.key.load();
    breaks(empty->value, record.value, "L4");
  }
  Reservation stray = test.store.pool().heap().reserve(64);
  test.store.pool().heap().publish({&stray, 1});
  EXPECT_THAT(index.check_invariants().error().what, testing::HasSubstr("T2"));
  test.store.pool().heap().free(stray.offset, 64);
  EXPECT_TRUE(succeeds(index.check_invariants()));
}

}  // namespace
}  // namespace perdure
