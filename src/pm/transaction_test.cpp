#include "pm/transaction.h"

#include <gtest/gtest.h>

#include "pm/version_lock.h"

namespace perdure::pm {
namespace {

std::uint64_t all_aborts(const TransactionCounts& counts) {
  return counts.aborts_explicit + counts.aborts_other + counts.aborts_conflict +
         counts.aborts_capacity;
}

class TransactionTest : public testing::Test {
 protected:
  TransactionTest() { configure_transactions(TransactionUse::on); }
  ~TransactionTest() override { configure_transactions(TransactionUse::automatic); }
};

TEST_F(TransactionTest, SwitchedOffElisionFallsBackWithoutRunningTheSection) {
  configure_transactions(TransactionUse::off);
  EXPECT_FALSE(transactions_on());
  int runs = 0;
  EXPECT_FALSE(elide(10, [&] { ++runs; }));
  EXPECT_EQ(runs, 0);
}

TEST_F(TransactionTest, TheyAreUsedWhereAskedForAndOffered) {
  EXPECT_EQ(transactions_on(), transactions_available());
  configure_transactions(TransactionUse::automatic);
  EXPECT_FALSE(transactions_on());
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
  const std::uint64_t aborts = all_aborts(after) - all_aborts(before);
  EXPECT_LE(aborts, 5U);
  EXPECT_EQ(aborts > 0, transactions_on());
  lock.unlock();
}

// Left to itself it would be 16 attempts a section, and the test would take some seconds. That
// sections which commit are tried again is shown where nothing else aborts them, in the simulator.
TEST_F(TransactionTest, SectionsThatAlwaysAbortAreHardlyTried) {
  constexpr unsigned attempts = 16;
  constexpr unsigned sections = 100'000;
  const TransactionCounts before = transaction_counts();
  AdaptiveElision elision;
  for (unsigned i = 0; i < sections; ++i)
    ASSERT_FALSE(elision.run(attempts, [] { abort_transaction(); }));
  const TransactionCounts after = transaction_counts();
  const std::uint64_t aborts = all_aborts(after) - all_aborts(before);
  const std::uint64_t left_out = after.left_out - before.left_out;
  constexpr unsigned judged = 10 + sections / AdaptiveElision::most_left_out;
  EXPECT_LE(aborts, attempts + AdaptiveElision::attempts_after_a_failure * judged);
  EXPECT_EQ(aborts > 0, transactions_on());
  EXPECT_EQ(left_out > sections - 2 * judged, transactions_on());
}

TEST_F(TransactionTest, SwitchedOffElisionLeavesNothingOut) {
  configure_transactions(TransactionUse::off);
  const std::uint64_t before = transaction_counts().left_out;
  AdaptiveElision elision;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(elision.run(3, [] {}));
  EXPECT_EQ(transaction_counts().left_out, before);
}

}  // namespace
}  // namespace perdure::pm
