// What the structures' tests share: a history on one structure, in one mode and with options that
// the suites do not set, beside a model.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/rng.h"
#include "index/common/test_store.h"

namespace perdure::structure {

using index_test::succeeds;
using SlotStore = index_test::Store<SlotKeys>;
using SlotModel = std::map<std::uint64_t, std::string>;

inline std::string value_of(std::uint64_t stamp) {
  return std::string(stamp % (max_slot_value_bytes + 1), static_cast<char>('a' + stamp % 26));
}

inline HeapKind heap_of(const std::string& name) {
  const IndexInfo& info = **IndexRegistry::find(name);
  return info.heaps.empty() ? HeapKind::dram : info.heaps.front();
}

inline void expect_model(SlotStore& store, const SlotModel& model, std::uint64_t keys) {
  SlotIndex& index = store.index();
  ASSERT_TRUE(succeeds(index.check_invariants()));
  ASSERT_EQ(index.size(), model.size());
  std::string value;
  for (std::uint64_t key = 0; key < keys; ++key) {
    const auto expected = model.find(key);
    const Outcome outcome = index.lookup(key, value);
    ASSERT_EQ(outcome, expected == model.end() ? Outcome::not_found : Outcome::ok) << key;
    if (expected != model.end()) {
      ASSERT_EQ(value, expected->second) << key;
    }
  }
  if (!store.info().ordered) return;
  SlotScan scan;
  ASSERT_EQ(index.scan(0, model.size() + 1, scan), model.size());
  std::size_t i = 0;
  for (const auto& [key, expected] : model) {
    ASSERT_EQ(scan[i].key, key);
    ASSERT_EQ(scan[i].value, expected);
    ++i;
  }
}

/// Growing and shrinking take turns; a persistent structure is reopened without a shutdown now and
/// then.
inline void agree_with_a_model(const std::string& name, std::vector<std::string> options,
                               unsigned operations = 6000, std::uint64_t keys = 700) {
  SlotStore store(name.c_str(), heap_of(name), Pool::min_pool_bytes * 2, std::move(options));
  SlotModel model;
  Rng rng(7);
  for (unsigned i = 0; i < operations; ++i) {
    const std::uint64_t key = rng.below(keys);
    const bool present = model.contains(key);
    const bool grows = i / 1000 % 2 == 0;
    const std::uint64_t draw = rng.below(10);
    if (draw < 6 && grows) {
      ASSERT_EQ(store.index().insert(key, value_of(i)), present ? Outcome::exists : Outcome::ok);
      model.try_emplace(key, value_of(i));
    } else if (draw < 6) {
      ASSERT_EQ(store.index().remove(key), present ? Outcome::ok : Outcome::not_found);
      model.erase(key);
    } else if (draw < 8) {
      ASSERT_EQ(store.index().update(key, value_of(i)), present ? Outcome::ok : Outcome::not_found);
      if (present) model[key] = value_of(i);
    } else {
      ASSERT_EQ(store.index().upsert(key, value_of(i)), Outcome::ok);
      model[key] = value_of(i);
    }
    if (i % 1500 == 1499) {
      if (store.info().recovers(KeyKind::slots)) {
        ASSERT_TRUE(succeeds(store.crash()));
      }
      ASSERT_NO_FATAL_FAILURE(expect_model(store, model, keys));
    }
  }
}

inline const std::vector<std::string> all_modes{"dram", "pmem-volatile", "pmem-persist",
                                                "pmem-trans"};

/// What one persistent mode has left, the other opens: on media they are the same.
inline void modes_open_each_other(const std::string& name) {
  for (const auto& [first, second] :
       {std::pair{":pmem-persist", ":pmem-trans"}, std::pair{":pmem-trans", ":pmem-persist"}}) {
    SlotStore store((name + first).c_str(), HeapKind::pmdk);
    for (std::uint64_t key = 0; key < 500; ++key)
      ASSERT_EQ(store.index().insert(key, value_of(key)), Outcome::ok);
    ASSERT_TRUE(succeeds(store.crash_into((name + second).c_str())));
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
    std::string value;
    for (std::uint64_t key = 0; key < 500; ++key) {
      ASSERT_EQ(store.index().lookup(key, value), Outcome::ok);
      ASSERT_EQ(value, value_of(key));
    }
    ASSERT_EQ(store.index().insert(1000, "one more"), Outcome::ok);
  }
}

}  // namespace perdure::structure
