// Batches of changes: they answer, and leave behind, what single changes in their order would.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "index/linetree/test_support.h"

namespace perdure {
namespace {

using namespace linetree_test;

enum class Operation : std::uint8_t { insert, upsert, update, remove };

/// A batch and the model that says what becomes of it.
template <class Keys, class OwnKey>
class Batches {
 public:
  using Value = typename Keys::Value;

  explicit Batches(linetree_test::Store<Keys>& store) : store_(store) {}

  void run(Operation operation, const std::vector<OwnKey>& keys,
           const std::vector<std::uint64_t>& numbers) {
    std::vector<typename Keys::Key> wanted(keys.begin(), keys.end());
    std::vector<std::string> texts;
    for (const std::uint64_t n : numbers) texts.push_back(std::to_string(n));
    std::vector<Value> values;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if constexpr (has_text_values<Keys>)
        values.push_back(texts[i]);
      else
        values.push_back(numbers[i]);
    }
    std::vector<Outcome> outcomes(keys.size(), Outcome::invalid);
    switch (operation) {
      case Operation::insert:
        store_.index().insert_batch(wanted, values, outcomes);
        break;
      case Operation::upsert:
        store_.index().upsert_batch(wanted, values, outcomes);
        break;
      case Operation::update:
        store_.index().update_batch(wanted, values, outcomes);
        break;
      case Operation::remove:
        store_.index().remove_batch(wanted, outcomes);
        break;
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
      ASSERT_EQ(outcomes[i], expected(operation, keys[i], numbers[i])) << i;
  }

  void expect_contents() {
    ASSERT_EQ(store_.index().size(), model_.size());
    typename Keys::ValueOut value{};
    for (const auto& [key, number] : model_) {
      ASSERT_EQ(store_.index().lookup(key, value), Outcome::ok);
      if constexpr (has_text_values<Keys>)
        ASSERT_EQ(value, std::to_string(number));
      else
        ASSERT_EQ(value, number);
    }
    EXPECT_TRUE(succeeds(store_.index().check_invariants()));
  }

 private:
  Outcome expected(Operation operation, const OwnKey& key, std::uint64_t number) {
    const auto at = model_.find(key);
    const bool present = at != model_.end();
    if (operation == Operation::remove) {
      if (!present) return Outcome::not_found;
      model_.erase(at);
      return Outcome::ok;
    }
    if (operation == Operation::insert && present) return Outcome::exists;
    if (operation == Operation::update && !present) return Outcome::not_found;
    model_[key] = number;
    return Outcome::ok;
  }

  linetree_test::Store<Keys>& store_;
  std::map<OwnKey, std::uint64_t> model_;
};

// Few keys, so that a batch has the same ones twice; leaves of 4 lines, so that it meets full ones,
// and full lines, and merges.
template <class Keys, class MakeKey>
void run_random_batches(linetree_test::Store<Keys>& store, MakeKey&& make_key, unsigned rounds) {
  using OwnKey = decltype(make_key(std::uint64_t{0}));
  Batches<Keys, OwnKey> batches(store);
  Rng rng(41);
  for (unsigned round = 0; round < rounds; ++round) {
    constexpr std::size_t sizes[] = {0, 1, 2, 31, 32, 33, 100};
    const std::size_t size = sizes[rng.below(std::size(sizes))];
    const std::uint64_t range = round % 3 == 0 ? 40 : 3000;
    std::vector<OwnKey> keys;
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = 0; i < size; ++i) {
      keys.push_back(make_key(rng.below(range)));
      numbers.push_back(rng());
    }
    const bool shrinking = round / 100 % 2 == 1;
    const auto operation =
        shrinking && rng.below(2) == 0 ? Operation::remove : static_cast<Operation>(rng.below(4));
    ASSERT_NO_FATAL_FAILURE(batches.run(operation, keys, numbers)) << round;
    if (round % 50 == 0) {
      ASSERT_NO_FATAL_FAILURE(batches.expect_contents());
    }
  }
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(batches.expect_contents());
}

TEST(LineTreeBatches, OfIntegersDoWhatSingleChangesDo) {
  Integers store({"lines=4"}, HeapKind::slab, large_pool);
  run_random_batches<IntegerKeys>(
      store, [](std::uint64_t n) { return mix64(n); }, 600);
}

TEST(LineTreeBatches, OfStringsDoWhatSingleChangesDo) {
  Strings store({"lines=4"}, HeapKind::slab, large_pool);
  run_random_batches<ByteKeys>(store, name, 300);
}

// Threads with keys of their own that share leaves, and readers of all: a batch is seen key by key,
// and each thread finds its own as it left them.
TEST(LineTreeBatches, OfSeveralThreadsKeepOutOfEachOthersWay) {
  Integers store({}, HeapKind::slab, large_pool);
  constexpr unsigned writers = 3;
  constexpr std::uint64_t keys_each = 2000;
  std::atomic<bool> stop{false};
  std::atomic<unsigned> wrong{0};
  std::thread reader([&] {
    Rng rng(5);
    while (!stop.load()) {
      const std::uint64_t key = mix64(rng.below(keys_each * writers));
      std::uint64_t value = 0;
      if (store.index().lookup(key, value) == Outcome::ok && value >> 8 != key >> 8) ++wrong;
    }
  });
  std::vector<std::thread> threads;
  std::vector<std::map<std::uint64_t, std::uint64_t>> kept(writers);
  for (unsigned t = 0; t < writers; ++t)
    threads.emplace_back([&, t] {
      Rng rng(6, t);
      auto& mine = kept[t];
      std::vector<std::uint64_t> keys(32);
      std::vector<std::uint64_t> values(32);
      std::vector<Outcome> outcomes(32);
      for (unsigned round = 0; round < 400; ++round) {
        for (std::size_t i = 0; i < keys.size(); ++i) {
          keys[i] = mix64(rng.below(keys_each) * writers + t);
          values[i] = (keys[i] & ~std::uint64_t{0xff}) | (round & 0xff);
        }
        const bool removes = rng.below(3) == 0;
        if (removes)
          store.index().remove_batch(keys, outcomes);
        else
          store.index().upsert_batch(keys, values, outcomes);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          if (!removes) {
            if (outcomes[i] != Outcome::ok) ++wrong;
            mine[keys[i]] = values[i];
          } else if ((outcomes[i] == Outcome::ok) != (mine.erase(keys[i]) == 1)) {
            ++wrong;
          }
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  reader.join();
  EXPECT_EQ(wrong.load(), 0U);
  ASSERT_TRUE(succeeds(store.crash()));
  std::size_t total = 0;
  for (const auto& mine : kept) {
    total += mine.size();
    for (const auto& [key, expected] : mine) {
      std::uint64_t value = 0;
      ASSERT_EQ(store.index().lookup(key, value), Outcome::ok);
      ASSERT_EQ(value, expected);
    }
  }
  EXPECT_EQ(store.index().size(), total);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

}  // namespace
}  // namespace perdure
