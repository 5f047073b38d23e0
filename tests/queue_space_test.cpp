// Full queues: an answer, nothing lost, and room again for each payload that is popped.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>

#include "support/queue_bed.h"

namespace perdure::testing {
namespace {

class QueueSpace : public ::testing::TestWithParam<QueueTarget> {
 protected:
  void SetUp() override { make(options_); }
  /// In place of what there is.
  void make(const QueueBedOptions& options) {
    options_ = options;
    bed_.reset();
    auto made = QueueBed::create(GetParam(), options_);
    ASSERT_TRUE(holds(made));
    bed_ = std::move(made).value();
  }
  [[nodiscard]] DurableQueue& queue() { return bed_->queue(); }
  [[nodiscard]] Result<void> fill() { return testing::fill(queue(), model_, next_); }
  [[nodiscard]] Result<void> take(std::uint64_t count) {
    return testing::take(queue(), model_, count);
  }
  [[nodiscard]] Result<void> drain() { return testing::drain(queue(), model_); }
  [[nodiscard]] Result<void> invariants() { return queue().check_invariants(); }

  /// Full, as it was made for, and sound.
  void expect_full() {
    EXPECT_EQ(model_.size(), options_.slots);
    EXPECT_EQ(queue().size(), options_.slots);
    EXPECT_EQ(queue().capacity(), options_.slots);
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(queue().push(""), Outcome::out_of_space);
    EXPECT_TRUE(holds(invariants()));
  }

  QueueBedOptions options_;
  std::unique_ptr<QueueBed> bed_;
  std::deque<std::string> model_;
  std::uint64_t next_ = 1;
};

TEST_P(QueueSpace, a_full_queue_says_so_and_gives_all_in_order) {
  const std::uint64_t blocks = bed_->live_blocks();
  ASSERT_TRUE(holds(fill()));
  expect_full();
  ASSERT_TRUE(holds(drain()));
  ASSERT_TRUE(holds(invariants()));
  EXPECT_EQ(bed_->live_blocks(), blocks);
}

TEST_P(QueueSpace, a_pop_makes_room_for_a_push) {
  ASSERT_TRUE(holds(fill()));
  for (std::uint64_t i = 0; i < 3 * options_.slots; ++i) {
    ASSERT_TRUE(holds(take(1)));
    ASSERT_TRUE(holds(fill()));
    ASSERT_EQ(model_.size(), options_.slots) << i;
  }
  expect_full();
  ASSERT_TRUE(holds(drain()));
}

TEST_P(QueueSpace, refuses_what_is_too_long_and_stays_as_it_is) {
  const std::string longest(options_.payload_bytes, 'l');
  EXPECT_EQ(queue().push(longest + "x"), Outcome::invalid);
  EXPECT_EQ(queue().size(), 0U);
  for (std::uint64_t i = 0; i < options_.slots; ++i) {
    ASSERT_EQ(queue().push(longest), Outcome::ok) << i;
    model_.push_back(longest);
  }
  EXPECT_EQ(queue().push(longest + "x"), Outcome::invalid);
  expect_full();
  ASSERT_TRUE(holds(drain()));
}

// What leaks a slot in a round is short of one in the next.
TEST_P(QueueSpace, takes_as_much_in_every_round) {
  const std::uint64_t blocks = bed_->live_blocks();
  for (unsigned round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    ASSERT_TRUE(holds(fill()));
    expect_full();
    ASSERT_TRUE(holds(take(options_.slots * round / 12)));
    ASSERT_TRUE(holds(fill()));
    expect_full();
    const auto reopen = [&](Reopen how) {
      const auto reopened = bed_->reopen(how);
      ASSERT_TRUE(holds(reopened));
      EXPECT_EQ(reopened->leaked_blocks_freed, 0U);
      EXPECT_EQ(reopened->usage.live_blocks, blocks);
    };
    if (round % 4 == 1) reopen(Reopen::crash);
    if (round % 4 == 3) reopen(Reopen::clean);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(holds(drain()));
    ASSERT_TRUE(holds(invariants()));
    if (round % 4 == 0) reopen(Reopen::crash);
    if (round % 4 == 2) reopen(Reopen::clean);
    if (HasFatalFailure()) return;
    EXPECT_EQ(bed_->live_blocks(), blocks);
  }
}

TEST_P(QueueSpace, a_full_queue_is_kept) {
  ASSERT_TRUE(holds(fill()));
  for (const Reopen how : {Reopen::crash, Reopen::clean, Reopen::crash}) {
    ASSERT_TRUE(holds(bed_->reopen(how)));
    expect_full();
    ASSERT_TRUE(holds(take(options_.slots / 3)));
    ASSERT_TRUE(holds(bed_->reopen(how)));
    ASSERT_TRUE(holds(fill()));
    expect_full();
  }
  ASSERT_TRUE(holds(drain()));
}

/// A payload of a thread: who it is, and its how manyth.
std::string payload_of(std::uint32_t thread, std::uint32_t number) {
  std::string payload = numbered_payload(std::uint64_t{thread} << 32 | number, 200);
  payload.resize(std::max<std::size_t>(payload.size(), 8));
  std::memcpy(payload.data(), &thread, 4);
  std::memcpy(payload.data() + 4, &number, 4);
  return payload;
}

// Other threads' spare slots, retired nodes and withheld slots are room, too.
TEST_P(QueueSpace, takes_as_much_from_several_threads) {
  constexpr std::uint32_t threads = 4;
  std::array<std::uint32_t, threads> pushed{};
  const auto push = [&](std::uint32_t thread) {
    const std::uint32_t number = pushed[thread] + 1;
    const Outcome outcome = queue().push(payload_of(thread, number), {thread, number});
    if (outcome == Outcome::ok) pushed[thread] = number;
    return outcome;
  };
  const auto all = [&](const auto& work) {
    std::vector<std::thread> running;
    for (std::uint32_t t = 0; t < threads; ++t) running.emplace_back(work, t);
    for (std::thread& thread : running) thread.join();
  };
  std::array<std::uint32_t, threads> before{};
  for (unsigned round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    all([&](std::uint32_t t) {
      Outcome outcome = Outcome::ok;
      while (outcome == Outcome::ok) outcome = push(t);
      EXPECT_EQ(outcome, Outcome::out_of_space);
    });
    // While others push, "full" may be said early.
    while (push(round % threads) == Outcome::ok) {
    }
    ASSERT_EQ(queue().size(), options_.slots);
    ASSERT_TRUE(holds(invariants()));
    if (round % 2 == 1) {
      ASSERT_TRUE(holds(bed_->reopen(Reopen::crash)));
    }
    std::array<std::vector<std::string>, threads> popped;
    all([&](std::uint32_t t) {
      for (std::string payload; queue().pop(payload) == Outcome::ok;) popped[t].push_back(payload);
    });
    std::map<std::pair<std::uint32_t, std::uint32_t>, unsigned> times;
    for (const auto& some : popped)
      for (const std::string& payload : some) {
        std::pair<std::uint32_t, std::uint32_t> id;
        ASSERT_GE(payload.size(), 8U);
        std::memcpy(&id.first, payload.data(), 4);
        std::memcpy(&id.second, payload.data() + 4, 4);
        ASSERT_EQ(payload, payload_of(id.first, id.second));
        ++times[id];
      }
    for (std::uint32_t t = 0; t < threads; ++t)
      for (std::uint32_t number = before[t] + 1; number <= pushed[t]; ++number)
        EXPECT_EQ((times[{t, number}]), 1U) << "thread " << t << ", push " << number;
    EXPECT_EQ(times.size(), options_.slots);
    before = pushed;
    ASSERT_TRUE(holds(invariants()));
  }
}

// A thread's mark is inherited with its number, also while others pop: it must not go back.
TEST_P(QueueSpace, forgets_no_pop_of_threads_that_come_and_go) {
  const std::uint64_t rounds = scaled(12, 2);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    ASSERT_TRUE(holds(fill()));
    std::atomic<std::uint64_t> popped{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 24; ++t)
      threads.emplace_back([&, t] {
        std::string payload;
        for (unsigned i = 0; i < 1 + t % 4; ++i)
          if (queue().pop(payload) == Outcome::ok) popped.fetch_add(1);
      });
    for (std::thread& thread : threads) thread.join();
    model_.erase(model_.begin(), model_.begin() + static_cast<std::ptrdiff_t>(popped.load()));
    ASSERT_TRUE(holds(invariants()));
    ASSERT_TRUE(holds(bed_->reopen(Reopen::crash)));
    ASSERT_EQ(queue().size(), model_.size()) << "what was popped came back";
  }
  ASSERT_TRUE(holds(drain()));
}

/// A refusal in one line that says where and what to do, and leaves nothing behind.
void expect_refusal(QueueBed& bed, const QueueBedOptions& options) {
  const Result<void> made = bed.make_queue(options);
  ASSERT_FALSE(made.ok()) << options.slots << " slots of " << options.payload_bytes << " bytes";
  const Error& error = made.error();
  EXPECT_TRUE(error.code == ErrorCode::out_of_space || error.code == ErrorCode::usage)
      << error.line();
  EXPECT_EQ(error.where, bed.path());
  EXPECT_NE(error.what.find(std::to_string(options.slots)), std::string::npos) << error.line();
  EXPECT_FALSE(error.remedy.empty());
  EXPECT_EQ(error.line().find('\n'), std::string::npos);
  EXPECT_EQ(bed.live_blocks(), 0U);
  EXPECT_TRUE(bed.pool().roots().empty());
}

TEST_P(QueueSpace, a_pool_that_is_too_small_is_refused_and_left_empty) {
  options_.pool_bytes = 64 << 20;
  const auto made = QueueBed::create_pool(GetParam(), options_);
  ASSERT_TRUE(holds(made));
  QueueBed& bed = **made;
  const auto most = [](const char* name) {
    return std::ranges::find(GetParam().info->options, name, &IndexOption::name)->most;
  };
  expect_refusal(bed, {.slots = 17'000, .payload_bytes = 4096});
  expect_refusal(bed, {.slots = most("slots"), .payload_bytes = 4096});
  expect_refusal(bed, {.slots = most("slots"), .payload_bytes = most("payload_bytes")});
  const QueueBedOptions fitting{.slots = 4000, .payload_bytes = 4096};
  ASSERT_TRUE(holds(bed.make_queue(fitting)));
  ASSERT_TRUE(holds(testing::fill(bed.queue(), model_, next_)));
  EXPECT_EQ(model_.size(), fitting.slots);
  ASSERT_TRUE(holds(bed.reopen(Reopen::crash)));
  ASSERT_TRUE(holds(testing::drain(bed.queue(), model_)));
}

TEST_P(QueueSpace, a_second_queue_that_does_not_fit_leaves_the_first_alone) {
  ASSERT_NO_FATAL_FAILURE(make({.slots = 4000, .payload_bytes = 4096, .pool_bytes = 64 << 20}));
  ASSERT_TRUE(holds(fill()));
  const std::uint64_t blocks = bed_->live_blocks();
  const auto second = bed_->make_another("other", {.slots = 13'000, .payload_bytes = 4096});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::out_of_space) << second.error().line();
  EXPECT_EQ(bed_->live_blocks(), blocks);
  EXPECT_EQ(bed_->pool().roots().size(), 1U);
  expect_full();
  ASSERT_TRUE(holds(bed_->reopen(Reopen::crash)));
  expect_full();
  const auto small = bed_->make_another("other", {.slots = 10, .payload_bytes = 40});
  ASSERT_TRUE(holds(small));
  EXPECT_EQ((*small)->push("x"), Outcome::ok);
  ASSERT_TRUE(holds(drain()));
}

TEST_P(QueueSpace, a_queue_of_one_slot_is_full_or_empty) {
  ASSERT_NO_FATAL_FAILURE(make({.slots = 1, .payload_bytes = 0}));
  for (unsigned round = 0; round < 5; ++round) {
    ASSERT_TRUE(holds(fill()));
    expect_full();
    ASSERT_TRUE(holds(bed_->reopen(round % 2 == 0 ? Reopen::crash : Reopen::clean)));
    expect_full();
    ASSERT_TRUE(holds(drain()));
  }
}

INSTANTIATE_TEST_SUITE_P(Queues, QueueSpace, ::testing::ValuesIn(queue_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(QueueSpace);

}  // namespace
}  // namespace perdure::testing
