// Operations of FPTree against a model: one thread, then several.
#include <algorithm>
#include <atomic>
#include <thread>

#include "index/fptree/test_support.h"
#include "index/leaf/leaf_order.h"

namespace perdure::fptree {
namespace {

template <class Keys>
class FpTreeTest : public testing::Test {};
using Kinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(FpTreeTest, Kinds);

TYPED_TEST(FpTreeTest, AnswersOutcomesAsTheContractSays) {
  Fixture<TypeParam> tree;
  EXPECT_TRUE(tree.absent(1));
  EXPECT_EQ(tree.index->update(key_from<TypeParam>(1), value_from<TypeParam>(1)),
            Outcome::not_found);
  EXPECT_EQ(tree.index->remove(key_from<TypeParam>(1)), Outcome::not_found);
  EXPECT_EQ(tree.insert(1, 10), Outcome::ok);
  EXPECT_EQ(tree.insert(1, 11), Outcome::exists);
  EXPECT_TRUE(tree.holds(1, 10));
  EXPECT_EQ(tree.index->update(key_from<TypeParam>(1), value_from<TypeParam>(12)), Outcome::ok);
  EXPECT_EQ(tree.index->upsert(key_from<TypeParam>(1), value_from<TypeParam>(13)), Outcome::ok);
  EXPECT_EQ(tree.index->upsert(key_from<TypeParam>(2), value_from<TypeParam>(14)), Outcome::ok);
  tree.expect({{1, 13}, {2, 14}});
  EXPECT_EQ(tree.index->remove(key_from<TypeParam>(1)), Outcome::ok);
  tree.expect({{2, 14}});
}

// Every operation at random, with leaves and nodes of several sizes; power is lost between rounds.
TYPED_TEST(FpTreeTest, AgreesWithAModelAcrossRestarts) {
  struct Shape {
    unsigned leaf_entries;
    unsigned inner_entries;
    bool update_in_place;
  };
  for (const Shape shape :
       {Shape{4, 3, false}, Shape{5, 4, true}, Shape{14, 15, false}, Shape{64, 128, true}}) {
    SCOPED_TRACE(testing::Message() << shape.leaf_entries << " leaf entries");
    Fixture<TypeParam> tree(shape.leaf_entries, shape.inner_entries, 32ULL << 20,
                            shape.update_in_place);
    std::map<std::uint64_t, std::uint64_t> model;
    Rng rng(17, shape.leaf_entries);
    for (unsigned round = 0; round < 6; ++round) {
      for (unsigned turn = 0; turn < 2500; ++turn) {
        const std::uint64_t number = rng.below(3000);
        const std::uint64_t value = rng.below(1000);
        const auto key = key_from<TypeParam>(number);
        const bool present = model.contains(number);
        switch (rng.below(round % 2 == 0 ? 5U : 9U)) {  // every other round shrinks
          case 0:
            ASSERT_EQ(tree.insert(number, value), present ? Outcome::exists : Outcome::ok);
            model.emplace(number, value);
            break;
          case 1:
          case 2:
            ASSERT_EQ(tree.index->upsert(key, value_from<TypeParam>(value)), Outcome::ok);
            model[number] = value;
            break;
          case 3:
            ASSERT_EQ(tree.index->update(key, value_from<TypeParam>(value)),
                      present ? Outcome::ok : Outcome::not_found);
            if (present) model[number] = value;
            break;
          default:
            ASSERT_EQ(tree.index->remove(key), present ? Outcome::ok : Outcome::not_found);
            model.erase(number);
        }
        ASSERT_EQ(tree.absent(number), !model.contains(number));
        if (turn % 50 != 0) continue;
        typename TypeParam::Scan out;
        const std::size_t count = rng.below(80);
        tree.index->scan(key, count, out);
        auto expected = model.lower_bound(number);
        for (std::size_t i = 0; i < out.size(); ++i, ++expected) {
          ASSERT_TRUE(expected != model.end());
          ASSERT_TRUE(out[i].key == key_from<TypeParam>(expected->first));
          ASSERT_TRUE(out[i].value == value_from<TypeParam>(expected->second));
        }
        ASSERT_TRUE(out.size() == count || expected == model.end());
      }
      ASSERT_NO_FATAL_FAILURE(tree.expect(model));
      const Result<void> restarted = tree.restart();
      ASSERT_TRUE(restarted.ok()) << restarted.error().line();
      ASSERT_NO_FATAL_FAILURE(tree.expect(model));
    }
  }
}

TYPED_TEST(FpTreeTest, FreesEveryLeafButTheFirstWhenEmptied) {
  Fixture<TypeParam> tree;
  const std::uint64_t before = tree.pool->heap().usage().live_blocks;
  for (std::uint64_t i = 0; i < 2000; ++i) ASSERT_EQ(tree.insert(i * 7919 % 2000), Outcome::ok);
  EXPECT_GT(tree.pool->heap().usage().live_blocks, before + 100);
  for (std::uint64_t i = 0; i < 2000; ++i)
    ASSERT_EQ(tree.index->remove(key_from<TypeParam>(i)), Outcome::ok);
  tree.expect({});
  EXPECT_EQ(tree.pool->heap().usage().live_blocks, before);
}

TYPED_TEST(FpTreeTest, LooksUpBatchesAsItLooksUpOneByOne) {
  Fixture<TypeParam> tree;
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(tree.insert(2 * i, i), Outcome::ok);
  for (const std::size_t count : {0U, 1U, 31U, 32U, 100U, 999U}) {
    std::vector<decltype(key_from<TypeParam>(0))> owned;
    for (std::size_t i = 0; i < count; ++i) owned.push_back(key_from<TypeParam>(i * 37 % 2100));
    const std::vector<typename TypeParam::Key> keys(owned.begin(), owned.end());
    std::vector<typename TypeParam::ValueOut> values(count);
    std::vector<Outcome> outcomes(count);
    tree.index->lookup_batch(keys, values, outcomes);
    for (std::size_t i = 0; i < count; ++i) {
      typename TypeParam::ValueOut value{};
      ASSERT_EQ(outcomes[i], tree.index->lookup(keys[i], value));
      ASSERT_TRUE(outcomes[i] != Outcome::ok || value == values[i]);
    }
  }
}

TYPED_TEST(FpTreeTest, BulkLoadEqualsInserts) {
  for (const std::size_t count : {0U, 1U, 7U, 8U, 100U, 10000U}) {  // the last by two threads
    Fixture<TypeParam> tree;
    std::map<std::uint64_t, std::uint64_t> model;
    std::vector<decltype(key_from<TypeParam>(0))> keys;
    std::vector<decltype(value_from<TypeParam>(0))> values;
    for (std::uint64_t i = 0; i < count; ++i) {
      model.emplace(3 * i, i % 100);
      keys.push_back(key_from<TypeParam>(3 * i));
      values.push_back(value_from<TypeParam>(i % 100));
    }
    std::vector<typename TypeParam::Record> records;
    for (std::size_t i = 0; i < count; ++i) records.push_back({keys[i], values[i]});
    const Result<void> loaded = tree.index->bulk_load(records);
    ASSERT_TRUE(loaded.ok()) << loaded.error().line();
    ASSERT_NO_FATAL_FAILURE(tree.expect(model));
    if (count != 0) {
      EXPECT_EQ(tree.index->bulk_load(records).error().code, ErrorCode::usage);  // not empty
    }
    ASSERT_TRUE(tree.restart().ok());
    ASSERT_NO_FATAL_FAILURE(tree.expect(model));
    for (std::uint64_t i = 0; i < count; i += 5) {
      ASSERT_EQ(tree.insert(3 * i + 1), Outcome::ok);
      model.emplace(3 * i + 1, 3 * i + 1);
    }
    ASSERT_NO_FATAL_FAILURE(tree.expect(model));
  }
}

TYPED_TEST(FpTreeTest, BulkLoadRefusesDisorderAndLeavesNothingBehindWhenFull) {
  Fixture<TypeParam> tree;
  const auto low = key_from<TypeParam>(1);
  const auto high = key_from<TypeParam>(2);
  const auto value = value_from<TypeParam>(0);
  const std::vector<typename TypeParam::Record> descending{{high, value}, {low, value}};
  EXPECT_EQ(tree.index->bulk_load(descending).error().code, ErrorCode::usage);
  const std::vector<typename TypeParam::Record> twice{{low, value}, {low, value}};
  EXPECT_EQ(tree.index->bulk_load(twice).error().code, ErrorCode::usage);

  std::vector<decltype(key_from<TypeParam>(0))> keys;
  for (std::uint64_t i = 0; i < 900'000; ++i) keys.push_back(key_from<TypeParam>(i));
  std::vector<typename TypeParam::Record> records;
  for (const auto& key : keys) records.push_back({key, value});
  EXPECT_EQ(tree.index->bulk_load(records).error().code, ErrorCode::out_of_space);
  tree.expect({});
  records.resize(1000);
  EXPECT_TRUE(tree.index->bulk_load(records).ok());
}

// The pool runs full in the middle of splits: errors, and nothing that was there is lost.
TYPED_TEST(FpTreeTest, LosesNothingWhenThePoolRunsFull) {
  Fixture<TypeParam> tree(4, 3);
  std::map<std::uint64_t, std::uint64_t> model;
  std::vector<Reservation> hoard;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(tree.insert(i * 31), Outcome::ok);
    model.emplace(i * 31, i * 31);
  }
  const auto take_all = [&](std::size_t bytes) {
    while (Reservation block = tree.pool->heap().reserve(bytes)) hoard.push_back(block);
  };
  take_all(Heap::max_block_bytes);
  for (std::size_t bytes = 1024; bytes >= 16; bytes -= 16) take_all(bytes);
  // Blobs find room again, leaves do not: a split then fails with the blob already written.
  for (Reservation& block : hoard)
    if (block.bytes <= 128) tree.pool->heap().cancel(block);
  std::erase_if(hoard, [](const Reservation& block) { return block.bytes <= 128; });
  unsigned refused = 0;
  for (std::uint64_t i = 0; i < 9000; ++i) {
    const std::uint64_t number = i / 3 * 31 + 1 + i % 3;
    const Outcome outcome = tree.insert(number);
    if (outcome == Outcome::ok)
      model.emplace(number, number);
    else
      ASSERT_EQ(outcome, Outcome::out_of_space);
    refused += outcome == Outcome::out_of_space;
  }
  EXPECT_GT(refused, 100U);
  for (Reservation& block : hoard) tree.pool->heap().cancel(block);
  ASSERT_NO_FATAL_FAILURE(tree.expect(model));
  ASSERT_TRUE(tree.restart().ok());
  ASSERT_NO_FATAL_FAILURE(tree.expect(model));
}

// Four threads on one small key space: each owns every fourth number and knows what it must find;
// scans and lookups run across all. Leaves split and vanish all the time.
TYPED_TEST(FpTreeTest, ThreadsFindTheirOwnWritesAndScansAscend) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t space = 1200;
  Fixture<TypeParam> tree(6, 4, 64ULL << 20);
  std::vector<std::map<std::uint64_t, std::uint64_t>> models(threads);
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      auto& model = models[t];
      Rng rng(23, t);
      typename TypeParam::Scan out;
      for (unsigned turn = 0; turn < 12'000; ++turn) {
        // Phases of growth and decay, staggered, so that leaves run empty beside others that split.
        const bool grow = (turn / 2000 + t) % 2 == 0;
        const std::uint64_t number = rng.below(space / threads) * threads + t;
        const auto key = key_from<TypeParam>(number);
        const bool present = model.contains(number);
        const std::uint64_t value = rng.below(500);
        const std::uint64_t what = rng.below(10);
        if (what < 5) {
          if (grow) {
            wrong += tree.insert(number, value) != (present ? Outcome::exists : Outcome::ok);
            model.emplace(number, value);
          } else {
            wrong += tree.index->remove(key) != (present ? Outcome::ok : Outcome::not_found);
            model.erase(number);
          }
        } else if (what < 7) {
          wrong += tree.index->update(key, value_from<TypeParam>(value)) !=
                   (present ? Outcome::ok : Outcome::not_found);
          if (present) model[number] = value;
        } else if (what < 9) {
          wrong += present ? !tree.holds(number, model[number]) : !tree.absent(number);
        } else {
          tree.index->scan(key, 40, out);
          for (std::size_t i = 0; i < out.size(); ++i) {
            wrong +=
                i == 0 ? out[i].key < typename TypeParam::Key(key) : !(out[i - 1].key < out[i].key);
          }
          // Of its own numbers a thread must see exactly those it left there.
          auto expected = model.lower_bound(number);
          for (std::size_t i = 0; i < out.size(); ++i) {
            if (expected == model.end()) break;
            const auto wanted = key_from<TypeParam>(expected->first);
            if (out[i].key < typename TypeParam::Key(wanted)) continue;
            wrong +=
                out[i].key != wanted || out[i].value != value_from<TypeParam>(expected->second);
            ++expected;
          }
          wrong += out.size() < 40 && expected != model.end();
        }
      }
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong.load(), 0U);
  std::map<std::uint64_t, std::uint64_t> all;
  for (auto& model : models) all.merge(model);
  ASSERT_NO_FATAL_FAILURE(tree.expect(all));
  ASSERT_TRUE(tree.restart().ok());
  ASSERT_NO_FATAL_FAILURE(tree.expect(all));
}

// Records that nobody removes are found by every lookup and in every scan, however often the leaves
// around them split, run empty, and have their slots filled anew.
TYPED_TEST(FpTreeTest, PermanentRecordsAreNeverMissedWhileTheirLeavesChange) {
  constexpr std::uint64_t space = 400;
  constexpr std::uint64_t spacing = 20;
  for (const bool update_in_place : {false, true}) {
    Fixture<TypeParam> tree(4, 3, 64ULL << 20, update_in_place);
    for (std::uint64_t i = 0; i < space; i += spacing) ASSERT_EQ(tree.insert(i), Outcome::ok);
    std::atomic<bool> stop{false};
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> readers;
    for (unsigned t = 0; t < 2; ++t)
      readers.emplace_back([&, t] {
        Rng rng(31, t);
        typename TypeParam::Scan out;
        while (!stop.load()) {
          const std::uint64_t number = rng.below(space / spacing) * spacing;
          wrong += tree.absent(number);
          tree.index->scan(key_from<TypeParam>(number), spacing + 1, out);
          std::uint64_t expected = number;
          for (std::size_t i = 0; i < out.size(); ++i)
            if (out[i].key == key_from<TypeParam>(expected)) expected += spacing;
          wrong += expected == number;
          wrong += out.size() == spacing + 1 && expected < space &&
                   typename TypeParam::Key(key_from<TypeParam>(expected)) <= out[spacing].key;
        }
      });
    Rng rng(37);
    for (unsigned turn = 0; turn < 40'000; ++turn) {
      const std::uint64_t number = rng.below(space);
      const auto key = key_from<TypeParam>(number);
      if (number % spacing == 0)
        wrong += tree.index->update(key, value_from<TypeParam>(turn)) != Outcome::ok;
      else if (turn / 4000 % 2 == 0)
        (void)tree.insert(number);
      else
        (void)tree.index->remove(key);
    }
    stop.store(true);
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong.load(), 0U);
    ASSERT_TRUE(tree.index->check_invariants().ok());
  }
}

// Threads race for the same few keys: of n inserts of one absent key exactly one wins.
TYPED_TEST(FpTreeTest, OneOfManyRacingInsertsWins) {
  constexpr unsigned threads = 4;
  constexpr std::uint64_t keys = 4000;
  Fixture<TypeParam> tree(4, 3, 64ULL << 20);
  std::atomic<std::uint64_t> inserted{0};
  std::atomic<std::uint64_t> removed{0};
  for (const bool insert : {true, false}) {
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < threads; ++t)
      workers.emplace_back([&] {
        for (std::uint64_t i = 0; i < keys; ++i) {
          if (insert)
            inserted += tree.insert(i * 101 % keys) == Outcome::ok;
          else
            removed += tree.index->remove(key_from<TypeParam>(i * 101 % keys)) == Outcome::ok;
        }
      });
    for (std::thread& worker : workers) worker.join();
    EXPECT_EQ(tree.index->size(), insert ? keys : 0);
    ASSERT_TRUE(tree.index->check_invariants().ok());
  }
  EXPECT_EQ(inserted.load(), keys);
  EXPECT_EQ(removed.load(), keys);
}

TEST(FpTreeInteger, OrdersAdversarialKeysAsUnsigned) {
  Fixture<IntegerKeys> tree(4, 3);
  std::map<std::uint64_t, std::uint64_t> model;
  for (unsigned shift = 0; shift < 64; ++shift)
    for (const std::uint64_t key : {1ULL << shift, (1ULL << shift) - 1, ~(1ULL << shift)}) {
      EXPECT_EQ(tree.insert(key, shift), model.contains(key) ? Outcome::exists : Outcome::ok);
      model.emplace(key, shift);
    }
  (void)tree.insert(~0ULL);
  model.emplace(~0ULL, ~0ULL);
  tree.expect(model);
}

TEST(FpTreeBytes, OrdersAdversarialKeysAsMemcmpDoes) {
  using namespace std::string_literals;
  Fixture<ByteKeys> tree(4, 3);
  std::map<std::string, std::string> model;
  std::vector<std::string> keys{""s,
                                "\0"s,
                                "\0\0"s,
                                "a"s,
                                "a\0"s,
                                "a\0\0\0\0\0\0\0"s,
                                "\xff"s,
                                "\x7f"s,
                                "\x80"s,
                                std::string(2048, '\0'),
                                std::string(2048, '\xff')};
  for (unsigned length = 0; length < 40; ++length) {
    keys.push_back(std::string(length, 'p'));
    keys.push_back(std::string(length, 'p') + '\0');
    keys.push_back(std::string(length, '\xff'));
  }
  for (const std::string& key : keys) {
    EXPECT_EQ(tree.index->insert(key, key + "!"),
              model.contains(key) ? Outcome::exists : Outcome::ok);
    model.emplace(key, key + "!");
  }
  EXPECT_EQ(tree.index->insert(std::string(2049, 'x'), "v"), Outcome::invalid);
  EXPECT_EQ(tree.index->insert("k", std::string(max_value_bytes + 1, 'v')), Outcome::invalid);
  EXPECT_EQ(tree.index->insert("k", std::string(max_value_bytes, 'v')), Outcome::ok);
  EXPECT_EQ(tree.index->remove("k"), Outcome::ok);
  for (unsigned restart = 0; restart < 2; ++restart) {
    ASSERT_TRUE(tree.index->check_invariants().ok());
    BytesScan out;
    ASSERT_EQ(tree.index->scan("", 1000, out), model.size());
    std::size_t i = 0;
    for (const auto& [key, value] : model) {
      EXPECT_EQ(out[i].key, key);
      EXPECT_EQ(out[i++].value, value);
      std::string found;
      EXPECT_EQ(tree.index->lookup(key, found), Outcome::ok);
    }
    ASSERT_TRUE(tree.restart().ok());
  }
}

TEST(LeafSlots, APreferredLineIsInsideTheLeafAndUsedWhenItHasRoom) {
  Rng rng(4);
  for (unsigned entries = min_entries; entries <= max_entries; ++entries)
    for (unsigned turn = 0; turn < 200; ++turn) {
      const std::uint64_t hash = rng();
      const unsigned line = preferred_slot(hash, entries);
      ASSERT_LT(line, entries);
      const unsigned slot = choose_slot(all_slots(entries), hash, entries);
      ASSERT_EQ(slot / records_per_line, line / records_per_line);
      const unsigned only = static_cast<unsigned>(rng.below(entries));
      ASSERT_EQ(choose_slot(bit(only), hash, entries), only);
    }
}

}  // namespace
}  // namespace perdure::fptree
