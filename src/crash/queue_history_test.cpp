// What a queue may hold after a power cut, by hand.
#include "crash/queue_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perdure::crash {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class QueueHistoryTest : public testing::Test {
 protected:
  std::uint32_t push(std::uint8_t thread, std::uint64_t stamp, Outcome outcome = Outcome::ok) {
    return add({Action::push, thread, 0, 0, stamp}, {.returned = true, .outcome = outcome});
  }
  /// 0: it finds the queue empty.
  std::uint32_t pop(std::uint8_t thread, std::uint64_t stamp) {
    const Outcome outcome = stamp == 0 ? Outcome::not_found : Outcome::ok;
    return add({Action::pop, thread, 0, 0, 0},
               {.returned = true, .outcome = outcome, .stamp = stamp});
  }
  /// From here on no operation is added.
  QueueHistory& history(std::uint64_t capacity = 4, bool detectable = false) {
    history_.emplace(operations_, answers_, QueueRules{2, capacity, detectable});
    return *history_;
  }
  void complete(std::initializer_list<std::uint32_t> all) {
    for (const std::uint32_t each : all) {
      history_->call(each);
      ASSERT_EQ(history_->ret(each), "");
    }
  }
  /// The payloads that are allowed.
  std::vector<Contents> payloads() {
    std::vector<Contents> all;
    for (const Contents& each : history_->allowed()) all.emplace_back(each.begin() + 2, each.end());
    return all;
  }

 private:
  std::uint32_t add(Operation operation, Answer answer) {
    operations_.push_back(operation);
    answers_.push_back(std::move(answer));
    return static_cast<std::uint32_t>(operations_.size() - 1);
  }
  std::vector<Operation> operations_;
  std::vector<Answer> answers_;
  std::optional<QueueHistory> history_;
};

TEST_F(QueueHistoryTest, PayloadsLeaveInTheOrderInWhichTheyCame) {
  const auto first = push(0, 5);
  const auto second = push(0, 6);
  const auto wrong = pop(0, 6);
  QueueHistory& history = this->history();
  complete({first, second});
  EXPECT_THAT(payloads(), ElementsAre(Contents{5, 6}));
  history.call(wrong);
  EXPECT_THAT(history.ret(wrong), HasSubstr("pop came to ok with payload 6"));
}

TEST_F(QueueHistoryTest, AnOperationInFlightIsAllOrNothing) {
  const auto first = push(0, 5);
  const auto open = push(0, 6);
  const auto popping = pop(1, 5);
  QueueHistory& history = this->history();
  complete({first});
  history.call(open);
  EXPECT_THAT(payloads(), UnorderedElementsAre(Contents{5}, Contents{5, 6}));
  history.call(popping);
  EXPECT_THAT(payloads(),
              UnorderedElementsAre(Contents{5}, Contents{5, 6}, Contents{}, Contents{6}));
  EXPECT_EQ(history.ret(popping), "");
  EXPECT_THAT(payloads(), UnorderedElementsAre(Contents{}, Contents{6}));
}

TEST_F(QueueHistoryTest, PushesBesideEachOtherTakeEitherOrderUntilAPopTells) {
  const auto left = push(0, 5);
  const auto right = push(1, 6);
  const auto popped = pop(0, 6);
  QueueHistory& history = this->history();
  history.call(left);
  history.call(right);
  EXPECT_EQ(history.ret(left), "");
  EXPECT_EQ(history.ret(right), "");
  EXPECT_THAT(payloads(), UnorderedElementsAre(Contents{5, 6}, Contents{6, 5}));
  complete({popped});
  EXPECT_THAT(payloads(), ElementsAre(Contents{5}));
}

TEST_F(QueueHistoryTest, EmptyMakesThePopsBeforeItDurable) {
  const auto first = push(0, 5);
  const auto popping = pop(0, 5);
  const auto empty = pop(1, 0);
  QueueHistory& history = this->history();
  complete({first});
  history.call(popping);
  EXPECT_THAT(payloads(), UnorderedElementsAre(Contents{5}, Contents{}));
  complete({empty});
  EXPECT_THAT(payloads(), ElementsAre(Contents{}));
}

TEST_F(QueueHistoryTest, EmptyIsWrongWhereAPayloadIs) {
  const auto first = push(0, 5);
  const auto empty = pop(1, 0);
  QueueHistory& history = this->history();
  complete({first});
  history.call(empty);
  EXPECT_THAT(history.ret(empty), HasSubstr("the queue held [5]"));
}

TEST_F(QueueHistoryTest, OnlyAFullQueueOrOneInUseRefuses) {
  const auto first = push(0, 5);
  const auto refused = push(0, 6, Outcome::out_of_space);
  const auto popping = pop(1, 5);
  history(1);
  complete({first, refused});
  QueueHistory& alone = history(2);
  complete({first});
  alone.call(refused);
  EXPECT_NE(alone.ret(refused), "");
  QueueHistory& beside = history(2);
  complete({first});
  beside.call(popping);
  beside.call(refused);
  EXPECT_EQ(beside.ret(refused), "");
}

TEST_F(QueueHistoryTest, AProducersLastPushIsReportedPoppedOrNot) {
  const auto first = push(0, 5);
  const auto popped = pop(1, 5);
  const auto open = push(0, 7);
  QueueHistory& history = this->history(4, true);
  complete({first, popped});
  EXPECT_THAT(history.allowed(), ElementsAre(Contents{5, 0}));
  history.call(open);
  EXPECT_THAT(history.allowed(), UnorderedElementsAre(Contents{5, 0}, Contents{7, 0, 7}));
  EXPECT_FALSE(history.allows(Contents{7, 0})) << "reported and not there";
  EXPECT_FALSE(history.allows(Contents{5, 0, 7})) << "there and not reported";
}

TEST_F(QueueHistoryTest, AfterACutWhatWasInFlightHasHappenedOrNeverWill) {
  const auto open = push(0, 5);
  const auto later = push(0, 6);
  QueueHistory& history = this->history();
  history.call(open);
  history.cut();
  EXPECT_TRUE(history.open().empty());
  complete({later});
  EXPECT_THAT(payloads(), UnorderedElementsAre(Contents{5, 6}, Contents{6}));
}

TEST_F(QueueHistoryTest, TheDigestTellsWhatIsAllowed) {
  const auto first = push(0, 5);
  const auto popped = pop(0, 5);
  QueueHistory& history = this->history();
  const std::uint64_t empty = history.digest();
  complete({first});
  EXPECT_NE(history.digest(), empty);
  complete({popped});
  EXPECT_EQ(history.digest(), empty);
}

TEST(PayloadTest, AStampIsReadFromItsPayloadAndATornOneIsRecognised) {
  constexpr std::size_t most = 320;
  std::size_t longest = 0;
  for (std::uint64_t stamp = 1; stamp < 500; ++stamp) {
    std::string payload = payload_of(stamp, most);
    longest = std::max(longest, payload.size());
    EXPECT_EQ(stamp_in_payload(payload, most), stamp);
    EXPECT_LE(payload_of(stamp, 16).size(), 16U);
    if (payload.size() < 8) continue;
    payload.back() = '\0';
    EXPECT_EQ(stamp_in_payload(payload, most), bad_stamp);
  }
  EXPECT_GT(longest, 256U);
  EXPECT_TRUE(payload_of(3, most).empty());
}

}  // namespace
}  // namespace perdure::crash
