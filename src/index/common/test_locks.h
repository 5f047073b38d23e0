// What every index promises whose leaves have version locks: checks for the tests of each.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "index/index.h"
#include "pm/pm.h"

namespace perdure::index_test {

/// What changes nothing disturbs no reader: the index is empty, and `lock` is that of its only
/// leaf.
inline void expect_refusals_keep_the_version(IntegerIndex& index, const pm::VersionLock& lock) {
  ASSERT_EQ(index.insert(1, 1), Outcome::ok);
  const std::uint64_t word = lock.read_begin();
  EXPECT_EQ(index.insert(1, 2), Outcome::exists);
  EXPECT_EQ(index.update(2, 2), Outcome::not_found);
  EXPECT_EQ(index.remove(2), Outcome::not_found);
  EXPECT_TRUE(lock.validate(word));
  EXPECT_EQ(index.update(1, 2), Outcome::ok);
  EXPECT_FALSE(lock.validate(word));
}

/// No reader returns a value while the lock of its leaf is held. The keys 0 to 9 are present, under
/// `lock`, and `value` is the value word of key 5.
inline void expect_readers_wait(IntegerIndex& index, pm::VersionLock& lock,
                                std::atomic<std::uint64_t>& value) {
  ASSERT_TRUE(lock.try_lock());
  std::atomic<unsigned> done{0};
  std::vector<std::jthread> readers;
  readers.emplace_back([&] {
    std::uint64_t found = 0;
    EXPECT_EQ(index.lookup(5, found), Outcome::ok);
    EXPECT_EQ(found, 55U);
    ++done;
  });
  readers.emplace_back([&] {
    IntegerScan scan;
    EXPECT_EQ(index.scan(0, 10, scan), 10U);
    EXPECT_EQ(scan[5].value, 55U);
    ++done;
  });
  readers.emplace_back([&] {
    const std::vector<std::uint64_t> keys{5, 6};
    std::vector<std::uint64_t> values(2);
    std::vector<Outcome> outcomes(2);
    index.lookup_batch(keys, values, outcomes);
    EXPECT_EQ(values[0], 55U);
    ++done;
  });
  value = 55;  // as a writer does: visible in memory and not yet durable
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(done, 0U);
  lock.unlock();
  readers.clear();
  EXPECT_EQ(done, 3U);
}

}  // namespace perdure::index_test
