// The recorder: what hardware transactions and code without hooks leave in the trace.
#include "crash/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "pm/pm.h"

namespace perdure::crash {
namespace {

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() {
    platform::Observer::offers_transactions = true;
    pm::configure_transactions(pm::TransactionUse::automatic);
    EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  }
  ~RecorderTest() override {
    platform::Observer::offers_transactions = false;
    pm::configure_transactions(pm::TransactionUse::off);
  }

  struct alignas(64) Words {
    std::array<std::atomic<std::uint64_t>, 16> word{};
  };
  Words memory_;
  Recorder recorder_{reinterpret_cast<const std::byte*>(&memory_), sizeof memory_, {}};

  static std::vector<Event> stores(const Trace& trace) {
    std::vector<Event> found;
    for (const Event& event : trace)
      if (event.kind == Event::Kind::store) found.push_back(event);
    return found;
  }
};

TEST_F(RecorderTest, StoresOfACommittedTransactionAreOneGroup) {
  const auto run = recorder_.run([&](unsigned) {
    memory_.word[0].store(1, std::memory_order_relaxed);
    EXPECT_TRUE(pm::elide(1, [&] {
      memory_.word[1].store(2, std::memory_order_relaxed);
      memory_.word[9].store(3, std::memory_order_relaxed);
    }));
    memory_.word[2].store(4, std::memory_order_relaxed);
  });
  const auto found = stores(run.trace);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].group, 0U);
  EXPECT_NE(found[1].group, 0U);
  EXPECT_EQ(found[1].group, found[2].group);
  EXPECT_EQ(found[3].group, 0U);
}

TEST_F(RecorderTest, AnAbortedTransactionLeavesNothing) {
  std::atomic<std::uint64_t> elsewhere{5};
  unsigned turns = 0;
  const auto run = recorder_.run([&](unsigned) {
    EXPECT_FALSE(pm::elide(2, [&] {
      memory_.word[1].store(2, std::memory_order_relaxed);
      elsewhere.store(6, std::memory_order_relaxed);
      pm::abort_transaction();
    }));
    EXPECT_EQ(memory_.word[1].load(), 0U);
    EXPECT_EQ(elsewhere.load(), 5U);
    ++turns;
  });
  EXPECT_EQ(turns, 1U);
  EXPECT_TRUE(stores(run.trace).empty());
}

TEST_F(RecorderTest, AFlushInsideATransactionAbortsIt) {
  const auto run = recorder_.run([&](unsigned) {
    EXPECT_FALSE(pm::elide(1, [&] {
      memory_.word[1].store(2, std::memory_order_relaxed);
      pm::flush(&memory_.word[1], 8);
    }));
  });
  EXPECT_EQ(memory_.word[1].load(), 0U);
  EXPECT_TRUE(stores(run.trace).empty());
}

// Where something is visible and not durable: of a mutant, where its own doing lasts.
TEST_F(RecorderTest, OfAMutantPreemptionsMatterUntilTheNextFence) {
  const std::function<void(unsigned)> job = [&](unsigned) {
    memory_.word[0].store(1, std::memory_order_relaxed);
    pm::flush(&memory_.word[0], 8);
    pm::fence();
    memory_.word[8].store(2, std::memory_order_relaxed);
    memory_.word[9].fetch_add(1);  // a fence, too
    memory_.word[10].store(3, std::memory_order_relaxed);
  };
  const auto sound = recorder_.run(job);
  ASSERT_EQ(sound.steps.flushes.size(), 1U);
  const std::uint64_t flush = sound.steps.flushes[0];
  const auto fence = std::ranges::find_if(sound.sites, &Site::is_fence);
  ASSERT_NE(fence, sound.sites.end());
  Recorder::Options options;
  options.mutation = {Mutation::Kind::drop, fence->pc};
  Recorder without(reinterpret_cast<const std::byte*>(&memory_), sizeof memory_, options);
  EXPECT_THAT(without.run(job).steps.flushes,
              testing::ElementsAre(flush + 1, flush + 2, flush + 3));
}

TEST(EventSourceTest, AForeignFlushTellsWhatNothingExplains) {
  alignas(64) std::array<std::uint64_t, 16> now{};
  const std::array<std::uint64_t, 16> before{};
  const auto* const base = reinterpret_cast<const std::byte*>(now.data());
  EventSource source(base, sizeof now);
  source.explain_from(reinterpret_cast<const std::byte*>(before.data()), base);
  source.begin_store(0, &now[0], 8, nullptr, EventSource::Access::plain);
  now[0] = 1;  // announced
  now[3] = 7;  // not announced, flushed below
  now[9] = 8;  // neither
  source.foreign_flush(0, &now[2], 16, nullptr);
  ASSERT_EQ(source.trace.size(), 3U);
  EXPECT_EQ(source.trace[0].value, 1U);
  EXPECT_EQ(source.trace[0].group, 0U);
  EXPECT_EQ(source.trace[1].at, 24U);
  EXPECT_EQ(source.trace[1].value, 7U);
  EXPECT_NE(source.trace[1].group, 0U);
  EXPECT_EQ(source.trace[2].kind, Event::Kind::flush);
  source.foreign_flush(0, &now[2], 16, nullptr);
  EXPECT_EQ(source.trace.size(), 4U) << "told once";
}

}  // namespace
}  // namespace perdure::crash
