#include "pm/version_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace perdure::pm {
namespace {

// V1
TEST(VersionLock, AChangeFailsEveryOverlappingRead) {
  VersionLock lock;
  const std::uint64_t before = lock.read_begin();
  EXPECT_TRUE(lock.validate(before));
  ASSERT_TRUE(lock.lock());
  EXPECT_FALSE(lock.validate(before));
  lock.unlock();
  EXPECT_FALSE(lock.validate(before));
  EXPECT_TRUE(lock.validate(lock.read_begin()));
}

TEST(VersionLock, ReleasingUnchangedKeepsReadsValid) {
  VersionLock lock;
  const std::uint64_t before = lock.read_begin();
  ASSERT_TRUE(lock.lock());
  lock.unlock_unchanged();
  EXPECT_TRUE(lock.validate(before));
}

TEST(VersionLock, AReadAttemptThatMetTheLockStaysFailed) {
  VersionLock lock;
  ReadAttempt attempt(lock, lock.read_begin());
  EXPECT_TRUE(attempt());
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(attempt());
  lock.unlock_unchanged();  // the word is the old one again
  EXPECT_FALSE(attempt());
  EXPECT_TRUE(ReadAttempt(lock, lock.read_begin())());
}

TEST(VersionLock, UpgradingFailsAfterAChangeAndWhileLocked) {
  VersionLock lock;
  const std::uint64_t before = lock.read_begin();
  EXPECT_TRUE(lock.try_upgrade(before));
  EXPECT_TRUE(VersionLock::is_locked(lock.peek()));
  EXPECT_FALSE(lock.try_lock());
  EXPECT_FALSE(lock.try_upgrade(before));
  EXPECT_FALSE(lock.try_upgrade(lock.peek()));
  lock.unlock();
  EXPECT_FALSE(lock.try_upgrade(before));
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

// V2
TEST(VersionLock, AnObsoleteNodeStaysObsolete) {
  VersionLock lock;
  const std::uint64_t before = lock.read_begin();
  ASSERT_TRUE(lock.lock());
  lock.unlock_obsolete();
  EXPECT_TRUE(VersionLock::is_obsolete(lock.read_begin()));
  EXPECT_FALSE(lock.validate(before));
  EXPECT_FALSE(lock.lock());
  EXPECT_FALSE(lock.try_lock());
  EXPECT_FALSE(lock.try_upgrade(lock.peek()));
}

TEST(VersionLock, ResetForgetsACrash) {
  VersionLock lock;
  ASSERT_TRUE(lock.lock());
  lock.reset();
  EXPECT_TRUE(lock.try_lock());
}

// V1 among threads: a validated read is never torn, and writers exclude each other.
TEST(VersionLock, ValidatedReadsAreNeverTorn) {
  VersionLock lock;
  std::array<std::atomic<std::uint64_t>, 4> words{};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> torn{0};
  std::atomic<std::uint64_t> validated{0};
  constexpr std::uint64_t writes = 20'000;
  {
    std::vector<std::jthread> readers;
    for (int t = 0; t < 2; ++t)
      readers.emplace_back([&] {
        while (!stop.load(std::memory_order_relaxed)) {
          const std::uint64_t version = lock.read_begin();
          std::array<std::uint64_t, 4> seen;
          for (std::size_t i = 0; i < 4; ++i) seen[i] = words[i].load(std::memory_order_acquire);
          if (!lock.validate(version)) continue;
          validated.fetch_add(1, std::memory_order_relaxed);
          for (const std::uint64_t word : seen)
            if (word != seen[0]) torn.fetch_add(1);
        }
      });
    std::vector<std::jthread> writers;
    for (int t = 0; t < 2; ++t)
      writers.emplace_back([&] {
        for (std::uint64_t i = 0; i < writes; ++i) {
          if (!lock.lock()) return;
          for (auto& word : words)
            word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
          lock.unlock();
        }
      });
    writers.clear();
    while (validated.load() == 0) std::this_thread::yield();
    stop = true;
  }
  EXPECT_EQ(torn.load(), 0U);
  for (const auto& word : words) EXPECT_EQ(word.load(), 2 * writes) << "a write was lost";
}

}  // namespace
}  // namespace perdure::pm
