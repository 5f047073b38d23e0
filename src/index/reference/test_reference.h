// What the tests of the reference indexes share. Their semantics are checked at large by the
// conformance suite; these are quick checks of what every one of them must do.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "index/registry.h"

namespace perdure {

/// With the index's default options.
template <class Keys>
[[nodiscard]] std::unique_ptr<OrderedIndex<Keys>> make_index(const char* name,
                                                             IndexPlace place = {}) {
  const IndexInfo& info = *IndexRegistry::find(name).value();
  place.options = IndexRegistry::options(info, {}).value();
  auto index = create_index<Keys>(info, place);
  EXPECT_TRUE(index.ok()) << (index.ok() ? "" : index.error().line());
  return index.ok() ? std::move(index).value() : nullptr;
}

/// Insert adds once, update and remove need a present key, upsert and reinsertion always work, and
/// a miss leaves the caller's value alone.
inline void check_integer_outcomes(IntegerIndex& index) {
  std::uint64_t value = 99;
  EXPECT_EQ(index.lookup(1, value), Outcome::not_found);
  EXPECT_EQ(value, 99U);
  EXPECT_EQ(index.update(1, 10), Outcome::not_found);
  EXPECT_EQ(index.remove(1), Outcome::not_found);
  EXPECT_EQ(index.insert(1, 10), Outcome::ok);
  EXPECT_EQ(index.insert(1, 11), Outcome::exists);
  EXPECT_EQ(index.lookup(1, value), Outcome::ok);
  EXPECT_EQ(value, 10U);
  EXPECT_EQ(index.update(1, 12), Outcome::ok);
  EXPECT_EQ(index.upsert(~0ULL, 13), Outcome::ok);
  EXPECT_EQ(index.upsert(0, 14), Outcome::ok);
  EXPECT_EQ(index.upsert(0, 15), Outcome::ok);
  IntegerScan scan;
  EXPECT_EQ(index.scan(0, 10, scan), 3U);
  EXPECT_EQ(scan[0], (IntegerRecord{0, 15}));
  EXPECT_EQ(scan[1], (IntegerRecord{1, 12}));
  EXPECT_EQ(scan[2], (IntegerRecord{~0ULL, 13}));
  EXPECT_EQ(index.scan(1, 1, scan), 1U);
  EXPECT_EQ(index.remove(1), Outcome::ok);
  EXPECT_EQ(index.lookup(1, value), Outcome::not_found);
  EXPECT_EQ(index.scan(1, 10, scan), 1U);
  EXPECT_EQ(index.insert(1, 16), Outcome::ok);
  EXPECT_EQ(index.lookup(1, value), Outcome::ok);
  EXPECT_EQ(value, 16U);
  EXPECT_EQ(index.size(), 3U);
  EXPECT_TRUE(index.check_invariants().ok());
}

/// The same for byte strings, with the empty key, zero bytes, the longest, and one too long.
inline void check_bytes_outcomes(BytesIndex& index) {
  using namespace std::string_literals;
  const std::string longest(max_key_bytes, '\xff');
  const std::string almost = longest.substr(1);
  const std::vector<std::string> keys = {"",   "\0"s,  "\0\0"s, "a",    "a\0"s, "a\0b"s,
                                         "ab", "\x7f", "\x80",  almost, longest};
  std::string value = "untouched";
  for (const std::string& key : keys) {
    EXPECT_EQ(index.lookup(key, value), Outcome::not_found);
    EXPECT_EQ(value, "untouched");
    EXPECT_EQ(index.update(key, "x"), Outcome::not_found);
    EXPECT_EQ(index.insert(key, "first"), Outcome::ok);
    EXPECT_EQ(index.insert(key, "second"), Outcome::exists);
  }
  EXPECT_EQ(index.insert(longest + "x", ""), Outcome::invalid);
  EXPECT_EQ(index.upsert("k", std::string(max_value_bytes + 1, 'v')), Outcome::invalid);
  EXPECT_EQ(index.lookup(longest + "x", value), Outcome::not_found);
  EXPECT_EQ(index.remove(longest + "x"), Outcome::not_found);
  BytesScan scan;
  ASSERT_EQ(index.scan("", 100, scan), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(scan[i], (BytesRecord{keys[i], "first"})) << i;
  const std::string big(max_value_bytes, 'v');
  for (const std::string& key : keys) {
    EXPECT_EQ(index.update(key, big), Outcome::ok);
    EXPECT_EQ(index.lookup(key, value), Outcome::ok);
    EXPECT_EQ(value, big);
    EXPECT_EQ(index.remove(key), Outcome::ok);
    EXPECT_EQ(index.remove(key), Outcome::not_found);
    EXPECT_EQ(index.upsert(key, ""), Outcome::ok);
    EXPECT_EQ(index.lookup(key, value), Outcome::ok);
    EXPECT_EQ(value, "");
    value = "untouched";
  }
  EXPECT_EQ(index.size(), keys.size());
  EXPECT_TRUE(index.check_invariants().ok());
  index.quiesce();
  EXPECT_EQ(index.scan("a\0"s, 3, scan), 3U);
}

/// Loads what is sorted, refuses what is not, and refuses an index that holds something.
inline void check_bulk_load(IntegerIndex& index) {
  const std::vector<IntegerRecord> unsorted = {{2, 0}, {1, 0}};
  const std::vector<IntegerRecord> twice = {{1, 0}, {1, 0}};
  for (const auto* wrong : {&unsorted, &twice}) {
    const auto refused = index.bulk_load(*wrong);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::usage);
  }
  EXPECT_EQ(index.size(), 0U);
  std::vector<IntegerRecord> records;
  for (std::uint64_t i = 0; i < 5000; ++i) records.push_back({3 * i, i});
  EXPECT_TRUE(index.bulk_load(records).ok());
  EXPECT_EQ(index.size(), records.size());
  std::uint64_t value = 0;
  EXPECT_EQ(index.lookup(2997, value), Outcome::ok);
  EXPECT_EQ(value, 999U);
  EXPECT_FALSE(index.bulk_load(records).ok());
  EXPECT_TRUE(index.check_invariants().ok());
}

/// Of several threads that insert and remove the same keys, each success is one thread's alone.
template <class Keys, class MakeKey>
void check_exclusive_successes(OrderedIndex<Keys>& index, unsigned rounds, MakeKey&& key_of) {
  constexpr unsigned threads = 4;
  constexpr unsigned keys = 4;  // few, so that threads meet
  std::vector<std::atomic<int>> present(keys);
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> workers;
  std::barrier start(threads);
  for (unsigned t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      start.arrive_and_wait();
      for (unsigned i = 0; i < rounds; ++i) {
        const unsigned k = (i + i / 5 + t) % keys;
        const auto key = key_of(k);
        if (i % 3 != 2) {
          if (index.insert(key, key) == Outcome::ok) present[k].fetch_add(1);
        } else if (index.remove(key) == Outcome::ok) {
          present[k].fetch_sub(1);
        }
        typename Keys::ValueOut value{};
        if (index.lookup(key, value) == Outcome::ok && value != key) wrong.fetch_add(1);
      }
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong.load(), 0U);
  std::uint64_t expected = 0;
  for (unsigned k = 0; k < keys; ++k) {
    typename Keys::ValueOut value{};
    const bool found = index.lookup(key_of(k), value) == Outcome::ok;
    EXPECT_EQ(present[k].load(), found ? 1 : 0) << "key " << k;
    expected += found;
  }
  EXPECT_EQ(index.size(), expected);
  EXPECT_TRUE(index.check_invariants().ok());
}

/// Four threads, each with keys of its own between the others' (`key_of(thread, number)`): in runs,
/// so that the structure grows and shrinks below everybody. No thread's keys are lost or come back.
template <class Keys, class MakeKey>
void check_own_keys(OrderedIndex<Keys>& index, unsigned runs, unsigned keys, MakeKey&& key_of) {
  constexpr unsigned threads = 4;
  constexpr unsigned run_length = 48;
  std::atomic<unsigned> wrong{0};
  std::atomic<std::uint64_t> present{0};
  std::vector<std::thread> workers;
  std::barrier start(threads);
  for (unsigned t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      std::vector<char> mine(keys);
      Rng rng(11, t);
      start.arrive_and_wait();
      for (unsigned run = 0; run < runs; ++run) {
        const std::uint64_t begin = rng.below(keys);
        const bool adds = rng.below(2) == 0;
        for (std::uint64_t k = begin; k < std::min<std::uint64_t>(begin + run_length, keys); ++k) {
          const auto key = key_of(t, k);
          typename Keys::ValueOut value{};
          const bool was = mine[k] != 0;
          if ((index.lookup(key, value) == Outcome::ok) != was) wrong.fetch_add(1);
          const Outcome outcome = adds ? index.insert(key, key) : index.remove(key);
          if ((outcome == Outcome::ok) != (adds != was)) wrong.fetch_add(1);
          mine[k] = adds;
        }
      }
      present += static_cast<std::uint64_t>(std::count(mine.begin(), mine.end(), 1));
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_EQ(index.size(), present.load());
  EXPECT_TRUE(index.check_invariants().ok());
}

/// While two threads add and remove keys between them, keys that stay are all met by every walk, in
/// order, and found.
inline void check_walks_beside_changes(IntegerIndex& index) {
  constexpr std::uint64_t stride = 257;
  constexpr std::uint64_t staying = 500;
  for (std::uint64_t i = 0; i < staying; ++i) ASSERT_EQ(index.insert(i * stride, i), Outcome::ok);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> changers;
  for (unsigned t = 0; t < 2; ++t)
    changers.emplace_back([&, t] {
      Rng rng(3, t);
      while (!stop.load()) {
        const std::uint64_t key = rng.below(staying * stride);
        if (key % stride == 0) continue;
        if (rng.below(2) == 0)
          static_cast<void>(index.upsert(key, key));
        else
          static_cast<void>(index.remove(key));
      }
    });
  const auto walk = [&](std::uint64_t first) {
    IntegerScan scan;
    index.scan(first * stride, staying * stride, scan);
    std::uint64_t next = first;
    for (std::size_t i = 0; i < scan.size(); ++i) {
      if (i > 0) {
        ASSERT_LT(scan[i - 1].key, scan[i].key);
      }
      if (scan[i].key % stride == 0) {
        ASSERT_EQ(scan[i].key, next++ * stride);
      }
    }
    ASSERT_EQ(next, staying);
    std::uint64_t value = 0;
    ASSERT_EQ(index.lookup(first * stride, value), Outcome::ok);
    ASSERT_EQ(value, first);
  };
  for (unsigned round = 0; round < 200 && !testing::Test::HasFailure(); ++round) walk(round % 50);
  stop = true;
  changers.clear();
  EXPECT_TRUE(index.check_invariants().ok());
}

}  // namespace perdure
