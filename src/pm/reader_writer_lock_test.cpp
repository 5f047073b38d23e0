// What every reader-writer lock keeps: S1 and S2 of SharedLock, L1 and L2 of AsymmetricLock.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "pm/asymmetric_lock.h"
#include "pm/shared_lock.h"

namespace perdure::pm {
namespace {

template <class Lock>
class ReaderWriterLock : public ::testing::Test {};
using Locks = ::testing::Types<SharedLock, AsymmetricLock>;
TYPED_TEST_SUITE(ReaderWriterLock, Locks);

// S1, L1: the two words are plain, so a reader beside a writer would see them differ (and
// ThreadSanitizer would say so).
TYPED_TEST(ReaderWriterLock, KeepsReadersAndWritersApart) {
  TypeParam lock;
  std::uint64_t left = 0;
  std::uint64_t right = 0;
  std::atomic<std::uint64_t> torn{0};
  constexpr std::uint64_t writes = 3'000;
  std::vector<std::thread> threads;
  std::barrier start(5);
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (std::uint64_t i = 0; i < writes; ++i) {
        const typename TypeParam::WriteGuard guard(lock);
        ++left;
        std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler must not join the two
        if (i % 16 == 0) std::this_thread::yield();           // whoever is let in runs now
        ++right;
      }
    });
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (std::uint64_t seen = 0; seen < 2 * writes;) {
        const typename TypeParam::ReadGuard guard(lock);
        seen = left;
        if (left != right) torn.fetch_add(1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn.load(), 0U);
  EXPECT_EQ(left, 2 * writes);
  EXPECT_EQ(right, 2 * writes);
}

// S2, L2: a writer gets in although readers overlap without a gap.
TYPED_TEST(ReaderWriterLock, LetsAWriterThroughAStreamOfReaders) {
  TypeParam lock;
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t)
    readers.emplace_back([&] {
      while (!stop.load()) const typename TypeParam::ReadGuard guard(lock);
    });
  for (int i = 0; i < 1000; ++i) const typename TypeParam::WriteGuard guard(lock);
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
}

// S1, L1: two readers are inside at once.
TYPED_TEST(ReaderWriterLock, AdmitsSeveralReaders) {
  TypeParam lock;
  const typename TypeParam::ReadGuard mine(lock);
  std::thread([&] { const typename TypeParam::ReadGuard theirs(lock); }).join();
}

/// True where `Wanted` is granted only after `Held` was let go.
template <class Held, class Wanted, class Lock>
bool waits_for(Lock& lock) {
  std::atomic<bool> inside{false};
  bool early = false;
  std::thread other;
  {
    const Held held(lock);
    other = std::thread([&] {
      const Wanted wanted(lock);
      inside.store(true);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    early = inside.load();
  }
  other.join();
  return !early && inside.load();
}

// S1, L1, both sides.
TYPED_TEST(ReaderWriterLock, WritersWaitForReadersAndReadersForWriters) {
  using Read = typename TypeParam::ReadGuard;
  using Write = typename TypeParam::WriteGuard;
  TypeParam lock;
  EXPECT_TRUE((waits_for<Read, Write>(lock)));
  EXPECT_TRUE((waits_for<Write, Read>(lock)));
  EXPECT_TRUE((waits_for<Write, Write>(lock)));
}

}  // namespace
}  // namespace perdure::pm
