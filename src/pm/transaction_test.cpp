#include "pm/transaction.h"

#include <gtest/gtest.h>

#include "pm/version_lock.h"

namespace perdure::pm {
namespace {

class TransactionTest : public testing::Test {
 protected:
  ~TransactionTest() override { configure_transactions(TransactionUse::automatic); }
};

TEST_F(TransactionTest, SwitchedOffElisionFallsBackWithoutRunningTheSection) {
  configure_transactions(TransactionUse::off);
  EXPECT_FALSE(transactions_on());
  int runs = 0;
  EXPECT_FALSE(elide(10, [&] { ++runs; }));
  EXPECT_EQ(runs, 0);
}

TEST_F(TransactionTest, AutomaticUseIsWhatTheMachineOffers) {
  configure_transactions(TransactionUse::automatic);
  EXPECT_EQ(transactions_on(), transactions_available());
}

// True on every machine: where transactions work, a committed section has run once; elsewhere it
// has left nothing.
TEST_F(TransactionTest, ASectionHappensOnceOrNotAtAll) {
  for (int i = 0; i < 1000; ++i) {
    VersionLock lock;
    std::uint64_t written = 0;
    const bool committed = elide(3, [&] {
      lock.lock_in_transaction();
      written = written + 1;
    });
    EXPECT_EQ(written, committed ? 1U : 0U);
    EXPECT_EQ(VersionLock::is_locked(lock.peek()), committed);
  }
}

TEST_F(TransactionTest, AHeldLockAbortsTheSectionBoundedly) {
  VersionLock lock;
  ASSERT_TRUE(lock.lock());
  const TransactionCounts before = transaction_counts();
  EXPECT_FALSE(elide(5, [&] { lock.lock_in_transaction(); }));
  const TransactionCounts after = transaction_counts();
  const std::uint64_t aborts = after.aborts_explicit + after.aborts_other + after.aborts_conflict +
                               after.aborts_capacity - before.aborts_explicit -
                               before.aborts_other - before.aborts_conflict -
                               before.aborts_capacity;
  EXPECT_LE(aborts, 5U);
  EXPECT_EQ(aborts > 0, transactions_on());
  lock.unlock();
}

}  // namespace
}  // namespace perdure::pm
