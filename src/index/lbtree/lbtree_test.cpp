// LbTree against a model, for both kinds of keys: operations, adversarial keys, scans, bulk loads,
// full pools, and what check_invariants notices.
#include "index/lbtree/lbtree.h"

#include <gmock/gmock.h>

#include <numeric>

#include "index/common/test_keys.h"
#include "index/lbtree/test_support.h"

namespace perdure {
namespace {

using index_test::random_key;
using index_test::random_value;
using lbtree_test::BytesModel;
using lbtree_test::expect_equal;
using lbtree_test::IntegerModel;
using lbtree_test::Model;
using lbtree_test::Store;
using lbtree_test::succeeds;
using Integers = Store<IntegerKeys>;
using Strings = Store<ByteKeys>;
using Leaf = lbtree::Leaf;
using Header = lbtree::Header;

template <class Keys>
void random_operations(std::uint64_t seed, unsigned steps) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Store<Keys> store(HeapKind::slab, 64 << 20, {"inner_entries=3"});
  auto& index = store.index();
  Model<Keys> model;
  Rng rng(seed);
  typename Keys::ValueOut out{};
  typename Keys::Scan scan;
  for (unsigned step = 0; step < steps; ++step) {
    const auto key = random_key<Keys>(rng);
    const auto value = random_value<Keys>(rng);
    const bool present = model.contains(key);
    // Growing and shrinking phases take turns, so that leaves split and vanish.
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
  }
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  while (!model.empty()) {
    ASSERT_EQ(store.index().remove(model.begin()->first), Outcome::ok);
    model.erase(model.begin());
  }
  expect_equal(store.index(), model);
  EXPECT_EQ(store.peer().leaves(), 1U) << "T3: empty leaves are unlinked";
}

TEST(LbTree, RandomIntegersAgreeWithTheModel) { random_operations<IntegerKeys>(11, 20000); }
TEST(LbTree, RandomStringsAgreeWithTheModel) { random_operations<ByteKeys>(12, 20000); }

TEST(LbTree, ExtremeIntegersSortAsUnsigned) {
  Integers store;
  const std::uint64_t sign = std::uint64_t{1} << 63;
  IntegerModel model;
  for (const std::uint64_t key : {~std::uint64_t{0}, sign, sign - 1, std::uint64_t{0}, sign + 1})
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::uint64_t near = key > sign ? key - i : key + i;
      const bool fresh = model.emplace(near, ~near).second;
      ASSERT_EQ(store.index().insert(near, ~near), fresh ? Outcome::ok : Outcome::exists);
    }
  expect_equal(store.index(), model);
  IntegerScan scan;
  EXPECT_EQ(store.index().scan(~std::uint64_t{0}, 5, scan), 1U) << "the highest key ends a scan";
}

TEST(LbTree, HostileStringsKeepByteOrder) {
  Strings store;
  BytesModel model;
  std::vector<std::string> keys{"",
                                std::string(1, '\0'),
                                std::string(2, '\0'),
                                "a",
                                std::string("a\0", 2),
                                std::string("a\0b", 3),
                                "\x7f",
                                "\x80",
                                "\xff"};
  for (std::size_t n = 1; n <= max_key_bytes; n *= 2) {
    keys.push_back(std::string(n, 'x'));
    keys.push_back(std::string(n, '\0'));
    keys.push_back(std::string(n - 1, 'x') + '\xff');
  }
  for (const std::string& key : keys) {
    if (!model.emplace(key, key + "!").second) continue;
    ASSERT_EQ(store.index().insert(key, key + "!"), Outcome::ok);
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  EXPECT_EQ(store.index().insert(std::string(max_key_bytes + 1, 'x'), ""), Outcome::invalid);
  EXPECT_EQ(store.index().insert("v", std::string(max_value_bytes + 1, 'x')), Outcome::invalid);
  std::string out;
  EXPECT_EQ(store.index().lookup(std::string(max_key_bytes + 1, 'x'), out), Outcome::not_found);
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// Where an insertion goes when the leaf was filled in this or that order must not show.
TEST(LbTree, SplitsKeepRecordsWhateverTheOrder) {
  std::vector<std::uint64_t> keys(60);
  std::iota(keys.begin(), keys.end(), 1);
  Rng rng(5);
  for (unsigned round = 0; round < 50; ++round) {
    Integers store;
    std::shuffle(keys.begin(), keys.end(), rng);
    if (round == 0) std::ranges::sort(keys);
    if (round == 1) std::ranges::reverse(keys);
    IntegerModel model;
    for (const std::uint64_t key : keys) {
      ASSERT_EQ(store.index().insert(key, key + 1000), Outcome::ok);
      model[key] = key + 1000;
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  }
}

template <class Keys>
void fills_pool_without_loss(HeapKind heap) {
  Store<Keys> store(heap);
  Model<Keys> model;
  const auto key_of = [](std::uint64_t i) {
    if constexpr (Keys::kind == KeyKind::integer)
      return mix64(i);
    else
      return std::string(1900, 'k') + std::to_string(i);
  };
  Outcome outcome = Outcome::ok;
  std::uint64_t i = 0;
  for (; outcome == Outcome::ok; ++i) {
    typename Keys::ValueOut value{};
    if constexpr (Keys::kind == KeyKind::integer) value = i;
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
  store.index().quiesce();
  for (unsigned n = 0; n < 5; ++n, ++i) {
    ASSERT_EQ(store.index().insert(key_of(i), {}), Outcome::ok);
    model[key_of(i)] = {};
  }
  expect_equal(store.index(), model);
}

TEST(LbTree, FullSlabPoolIsAnErrorAndLosesNothing) {
  fills_pool_without_loss<IntegerKeys>(HeapKind::slab);
  fills_pool_without_loss<ByteKeys>(HeapKind::slab);
}
TEST(LbTree, FullPmdkPoolIsAnErrorAndLosesNothing) {
  fills_pool_without_loss<ByteKeys>(HeapKind::pmdk);
}

template <class Keys>
void bulk_loads(std::size_t count) {
  SCOPED_TRACE(count);
  Store<Keys> store(HeapKind::slab, 64 << 20);
  Model<Keys> model;
  for (std::size_t i = 0; model.size() < count; ++i) {
    if constexpr (Keys::kind == KeyKind::integer)
      model[mix64(i)] = i;
    else
      model[std::to_string(mix64(i))] = std::to_string(i);
  }
  std::vector<typename Keys::Record> records;
  for (const auto& [key, value] : model) records.push_back({key, value});
  ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  if (count == 0) return;
  EXPECT_EQ(store.index().bulk_load(records).error().code, ErrorCode::usage) << "not empty";
  const typename Keys::Record last = records.back();
  ASSERT_EQ(store.index().remove(last.key), Outcome::ok);
  ASSERT_EQ(store.index().insert(last.key, last.value), Outcome::ok);
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

TEST(LbTree, BulkLoadsAnyNumberOfRecords) {
  for (const std::size_t count : {0U, 1U, 10U, 11U, 12U, 22U, 23U, 5000U}) {
    bulk_loads<IntegerKeys>(count);
    bulk_loads<ByteKeys>(count);
  }
}

TEST(LbTree, BulkLoadRefusesDisorderAndFullPools) {
  Strings store;
  const std::vector<BytesRecord> disorder{{"b", "1"}, {"a", "2"}};
  EXPECT_EQ(store.index().bulk_load(disorder).error().code, ErrorCode::usage);
  std::vector<std::string> keys;
  for (unsigned i = 10000; i < 30000; ++i)
    keys.push_back(std::to_string(i) + std::string(2000, 'x'));
  std::vector<BytesRecord> many;
  for (const std::string& key : keys) many.push_back({key, ""});
  EXPECT_EQ(store.index().bulk_load(many).error().code, ErrorCode::out_of_space);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), {}));  // empty again, and no block is lost
  many.resize(100);
  ASSERT_TRUE(store.index().bulk_load(many).ok());
  EXPECT_EQ(store.index().size(), 100U);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

TEST(LbTree, BatchesAnswerAsSingleLookups) {
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

TEST(LbTree, RecoversAgainAndAgain) {
  for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk}) {
    Integers store(heap, 64 << 20);
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

// What the public code skips can be had, and what that costs is said.
template <class Keys>
void loses_unpublished_leaves(HeapKind heap) {
  Store<Keys> store(heap, 64 << 20, {"as_published=1"});
  Model<Keys> model;
  Rng rng(31);
  for (unsigned n = 0; n < 3000; ++n) model[random_key<Keys>(rng)] = random_value<Keys>(rng);
  for (const auto& [key, value] : model) ASSERT_EQ(store.index().insert(key, value), Outcome::ok);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  for (const auto& [key, value] : model) ASSERT_EQ(store.index().remove(key), Outcome::ok);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), Model<Keys>{}));
  const Result<void> recovered = store.crash();
  ASSERT_FALSE(recovered.ok());
  EXPECT_EQ(recovered.error().code, ErrorCode::unsupported);
}

// Else a leaf of the next split would be lost without a word.
TEST(LbTree, RecoveryAsksForTheOptionItWasMadeWith) {
  Integers store;
  ASSERT_EQ(store.index().insert(1, 2), Outcome::ok);
  IndexPlace place = store.place();
  const std::vector<std::string> asked{"as_published=1"};
  const auto options = IndexRegistry::options(store.info(), asked);
  ASSERT_TRUE(options.ok());
  place.options = *options;
  auto other = recover_index<IntegerKeys>(store.info(), place);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::foreign);
}

TEST(LbTree, AsPublishedIsNotRecovered) {
  for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk}) {
    loses_unpublished_leaves<IntegerKeys>(heap);
    loses_unpublished_leaves<ByteKeys>(heap);
  }
}

TEST(LbTree, AnotherKindOfKeyIsForeign) {
  Integers store;
  IndexPlace place = store.place();
  auto wrong = recover_index<ByteKeys>(store.info(), place);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::foreign);
  auto again = create_index<IntegerKeys>(store.info(), place);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::exists);
  EXPECT_TRUE(succeeds(store.index().check_invariants())) << "the refused creation leaked no block";
}

// Each invariant is broken by hand; the check must name it, and be content once it is mended.
TEST(LbTree, CheckNamesTheBrokenInvariant) {
  Integers store;
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(store.index().insert(i * 10, i), Outcome::ok);
  auto peer = store.peer();
  Leaf& leaf = peer.leaf_of(500);
  const Header header = leaf.read_header();
  const auto slot = peer.slot(leaf, 500);
  const auto breaks = [&](std::atomic<std::uint64_t>& word, std::uint64_t value, const char* name) {
    const std::uint64_t kept = word.exchange(value);
    const Result<void> result = store.index().check_invariants();
    ASSERT_FALSE(result.ok()) << name;
    EXPECT_THAT(result.error().what, testing::HasSubstr(name));
    EXPECT_EQ(result.error().code, ErrorCode::corrupt);
    word = kept;
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
  };
  breaks(leaf.header[0], header.word_0 | Header::zero_mask, "L1");
  breaks(
      leaf.header[slot < Header::word_1_slot ? 0 : 1],
      leaf.header[slot < Header::word_1_slot ? 0 : 1] ^ std::uint64_t{1} << (8 * ((slot + 2) % 8)),
      "L3");
  breaks(leaf.record[slot].key, 501, "L3");
  breaks(leaf.header[0], header.word_0 & ~Header::live_mask, "T3");
  breaks(leaf.header[0], header.word_0 ^ Header::alternate_bit, "T1");
  Leaf& first = peer.first();
  const auto other = static_cast<unsigned>(std::countr_zero(first.read_header().live()));
  const Header first_header = first.read_header();
  // The fingerprint goes along, so that only the bounds are wrong.
  Header moved = first_header;
  moved.drop(1U << other);
  moved.add(other, fingerprint_of(std::uint64_t{505}));
  const std::uint64_t kept_key = first.record[other].key.exchange(505);
  const std::uint64_t kept_word_1 = first.header[1].exchange(moved.word_1);
  const std::uint64_t kept_word_0 = first.header[0].exchange(moved.word_0);
  EXPECT_THAT(store.index().check_invariants().error().what, testing::HasSubstr("T2"));
  first.record[other].key = kept_key;
  first.header[1] = kept_word_1;
  first.header[0] = kept_word_0;

  ASSERT_TRUE(peer.lock_of(leaf).try_lock());
  EXPECT_THAT(store.index().check_invariants().error().what, testing::HasSubstr("S1"));
  peer.lock_of(leaf).unlock();

  Reservation stray = store.pool().heap().reserve(256);
  store.pool().heap().publish({&stray, 1});
  EXPECT_THAT(store.index().check_invariants().error().what, testing::HasSubstr("T4"));
  store.pool().heap().free(stray.offset, 256);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

}  // namespace
}  // namespace perdure
