#include "crash/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perdure::crash {
namespace {

using testing::ElementsAre;

class HistoryTest : public testing::Test {
 protected:
  std::uint32_t add(Action action, std::uint64_t stamp, Outcome outcome = Outcome::ok,
                    std::uint64_t read = 0) {
    operations_.push_back({action, 0, 0, 8, stamp});
    Answer answer;
    answer.returned = true;
    answer.outcome = outcome;
    answer.stamp = read;
    answers_.push_back(answer);
    return static_cast<std::uint32_t>(operations_.size() - 1);
  }

  std::vector<Operation> operations_;
  std::vector<Answer> answers_;
};

TEST_F(HistoryTest, AnOperationInFlightIsAllOrNothing) {
  const auto insert = add(Action::insert, 5);
  History history(operations_, answers_, 2);
  EXPECT_THAT(history.allowed(0), ElementsAre(absent));
  history.call(insert);
  EXPECT_THAT(history.allowed(0), ElementsAre(5, absent));
  EXPECT_EQ(history.ret(insert), "");
  EXPECT_THAT(history.allowed(0), ElementsAre(5));
  EXPECT_THAT(history.allowed(1), ElementsAre(absent));
}

TEST_F(HistoryTest, AReadMakesWhatItSawDurable) {
  const auto insert = add(Action::insert, 5);
  const auto lookup = add(Action::lookup, 0, Outcome::ok, 5);
  History history(operations_, answers_, 1);
  history.call(insert);
  history.call(lookup);
  EXPECT_EQ(history.ret(lookup), "");
  EXPECT_THAT(history.allowed(0), ElementsAre(5));
}

TEST_F(HistoryTest, AReadThatFoundNothingDoesNotDecide) {
  const auto insert = add(Action::insert, 5);
  const auto lookup = add(Action::lookup, 0, Outcome::not_found);
  History history(operations_, answers_, 1);
  history.call(insert);
  history.call(lookup);
  EXPECT_EQ(history.ret(lookup), "");
  EXPECT_THAT(history.allowed(0), ElementsAre(5, absent));
}

// A cut ends it before it answers: it may have removed what another one removes in the run.
TEST_F(HistoryTest, WhatIsRefusedLaterMayHaveTakenEffectAtACut) {
  const auto insert = add(Action::insert, 5);
  const auto late = add(Action::remove, 0, Outcome::not_found);
  const auto again = add(Action::insert, 9, Outcome::exists);
  History history(operations_, answers_, 1);
  history.call(insert);
  EXPECT_EQ(history.ret(insert), "");
  history.call(late);
  EXPECT_THAT(history.allowed(0), ElementsAre(5, absent));
  history.call(again);
  EXPECT_THAT(history.allowed(0), ElementsAre(5, 9, absent));
  history.cut();
  EXPECT_THAT(history.allowed(0), ElementsAre(5, 9, absent));
}

TEST_F(HistoryTest, WhatFindsNoRoomMayHaveTakenEffectAtACutUntilItAnswers) {
  for (const Action action : {Action::insert, Action::upsert}) {
    operations_.clear();
    answers_.clear();
    const auto write = add(action, 5, Outcome::out_of_space);
    History history(operations_, answers_, 1);
    history.call(write);
    EXPECT_THAT(history.allowed(0), ElementsAre(5, absent));
    EXPECT_EQ(history.ret(write), "");
    EXPECT_THAT(history.allowed(0), ElementsAre(absent));
  }
  operations_.clear();
  answers_.clear();
  const auto insert = add(Action::insert, 5);
  const auto update = add(Action::update, 6, Outcome::out_of_space);
  History history(operations_, answers_, 1);
  history.call(insert);
  EXPECT_EQ(history.ret(insert), "");
  history.call(update);
  EXPECT_THAT(history.allowed(0), ElementsAre(5, 6));
  EXPECT_EQ(history.ret(update), "");
  EXPECT_THAT(history.allowed(0), ElementsAre(5));
}

TEST_F(HistoryTest, ARefusalThatIsAnsweredMustHaveAReason) {
  const auto insert = add(Action::insert, 5);
  const auto late = add(Action::remove, 0, Outcome::not_found);
  History history(operations_, answers_, 1);
  history.call(insert);
  EXPECT_EQ(history.ret(insert), "");
  history.call(late);
  EXPECT_NE(history.ret(late), "") << "it found nothing where something was all the time";
}

TEST_F(HistoryTest, TwoWritersLeaveEitherOrder) {
  const auto first = add(Action::upsert, 5);
  const auto second = add(Action::upsert, 6);
  History history(operations_, answers_, 1);
  history.call(first);
  history.call(second);
  EXPECT_EQ(history.ret(first), "");
  EXPECT_THAT(history.allowed(0), ElementsAre(5, 6));
  EXPECT_EQ(history.ret(second), "");
  EXPECT_THAT(history.allowed(0), ElementsAre(5, 6));
}

TEST_F(HistoryTest, ABatchTakesEffectInItsOrderAndMayBeCutAnywhere) {
  const auto first = add(Action::upsert, 5);
  const auto second = add(Action::upsert, 6);
  operations_[first].batch = operations_[second].batch = 1;
  History history(operations_, answers_, 1);
  history.call(first);
  history.call(second);
  EXPECT_THAT(history.allowed(0), ElementsAre(5, 6, absent));
  EXPECT_EQ(history.ret(first), "");
  EXPECT_EQ(history.ret(second), "");
  EXPECT_THAT(history.allowed(0), ElementsAre(6)) << "the first one's value cannot be the last";
}

TEST_F(HistoryTest, ABatchOnTwoKeysMayLeaveAnySubset) {
  const auto first = add(Action::insert, 5);
  const auto second = add(Action::insert, 6);
  operations_[second].key = 1;
  operations_[first].batch = operations_[second].batch = 1;
  History history(operations_, answers_, 2);
  history.call(first);
  history.call(second);
  for (const std::uint64_t a : {absent, std::uint64_t{5}})
    for (const std::uint64_t b : {absent, std::uint64_t{6}})
      EXPECT_TRUE(history.allows(Contents{a, b})) << a << " " << b;
  EXPECT_EQ(history.ret(first), "");
  EXPECT_EQ(history.ret(second), "");
  EXPECT_FALSE(history.allows(Contents{5, absent})) << "all are durable when the call returns";
  EXPECT_FALSE(history.allows(Contents{absent, 6}));
}

TEST_F(HistoryTest, OfABatchWhatIsRefusedDoesNotOvertake) {
  const auto first = add(Action::insert, 5);
  const auto second = add(Action::insert, 6, Outcome::exists);
  operations_[first].batch = operations_[second].batch = 1;
  History history(operations_, answers_, 1);
  history.call(first);
  history.call(second);
  EXPECT_THAT(history.allowed(0), ElementsAre(5, absent));
  // Beside another thread's removal it may insert in the cut run.
  const auto removal = add(Action::remove, 0);
  history.call(removal);
  EXPECT_THAT(history.allowed(0), ElementsAre(5, 6, absent));
}

TEST_F(HistoryTest, AfterACutWhatWasInFlightTakesEffectNoMore) {
  const auto first = add(Action::insert, 5);
  const auto in_flight = add(Action::upsert, 6);
  answers_[in_flight].returned = false;
  const auto later = add(Action::upsert, 7);
  const auto call_both = [&](History& history) {
    history.call(first);
    EXPECT_EQ(history.ret(first), "");
    history.call(in_flight);
  };
  History uncut(operations_, answers_, 1);
  call_both(uncut);
  uncut.call(later);
  EXPECT_EQ(uncut.ret(later), "");
  EXPECT_THAT(uncut.allowed(0), ElementsAre(6, 7));
  History history(operations_, answers_, 1);
  call_both(history);
  history.cut();
  EXPECT_TRUE(history.open().empty());
  EXPECT_THAT(history.allowed(0), ElementsAre(5, 6));
  history.call(later);
  EXPECT_EQ(history.ret(later), "");
  EXPECT_THAT(history.allowed(0), ElementsAre(7));
}

TEST_F(HistoryTest, AnImpossibleAnswerIsObjectedTo) {
  const auto lookup = add(Action::lookup, 0, Outcome::ok, 9);
  History history(operations_, answers_, 1);
  history.call(lookup);
  EXPECT_NE(history.ret(lookup), "");
}

TEST_F(HistoryTest, AScanThatMissesAKeyIsObjectedTo) {
  const auto insert = add(Action::insert, 5);
  const auto scan = add(Action::scan, 0);
  History history(operations_, answers_, 1);
  history.call(insert);
  EXPECT_EQ(history.ret(insert), "");
  history.call(scan);
  EXPECT_NE(history.ret(scan), "");
}

TEST_F(HistoryTest, TheDigestTellsAllowedContentsApart) {
  const auto insert = add(Action::insert, 5);
  History history(operations_, answers_, 1);
  const std::uint64_t before = history.digest();
  history.call(insert);
  const std::uint64_t open = history.digest();
  EXPECT_NE(before, open);
  EXPECT_EQ(history.ret(insert), "");
  EXPECT_NE(open, history.digest());
}

TEST_F(HistoryTest, TextsNameTheKeyAndWhatItHeld) {
  const auto insert = add(Action::insert, 5);
  const auto lookup = add(Action::lookup, 0, Outcome::ok, 6);
  History history(operations_, answers_, 1, [](std::uint16_t) { return "seven"; });
  history.call(insert);
  EXPECT_EQ(history.ret(insert), "");
  history.call(lookup);
  EXPECT_EQ(history.ret(lookup),
            "lookup of key seven came to ok with stamp 6, which no order of the operations "
            "explains: the key was stamp 5");
}

}  // namespace
}  // namespace perdure::crash
