// Litmus tests of the persistency model: every set of contents below was worked out by hand.
#include "crash/persistency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace perdure::crash {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class FakeMedia final : public Persistency::Media {
 public:
  [[nodiscard]] LineContent read(LineNumber line) const override {
    const auto at = lines_.find(line);
    return at == lines_.end() ? LineContent{} : at->second;
  }
  void write(LineNumber line, const LineContent& content) override { lines_[line] = content; }

 private:
  std::map<LineNumber, LineContent> lines_;
};

class PersistencyTest : public testing::Test {
 protected:
  /// Every content word `word` of the line may have.
  std::vector<std::uint64_t> may_be(LineNumber line, std::size_t word = 0) const {
    std::vector<std::uint64_t> values;
    for (const Choice& choice : adr_.choices(line)) values.push_back(choice.content[word]);
    return values;
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs(LineNumber line) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> values;
    for (const Choice& choice : adr_.choices(line))
      values.emplace_back(choice.content[0], choice.content[1]);
    return values;
  }

  FakeMedia media_;
  Persistency adr_{media_, 16, Domain::adr, 2};
  FakeMedia eadr_media_;
  Persistency eadr_{eadr_media_, 16, Domain::eadr, 2};
  static constexpr auto clwb = Persistency::Flush::clwb;
};

TEST_F(PersistencyTest, AStoreMayOrMayNotBeThere) {
  adr_.store(0, 0, 8, 1, 0);
  EXPECT_THAT(may_be(0), ElementsAre(0, 1));
}

TEST_F(PersistencyTest, StoresToOneLinePersistInOrder) {
  adr_.store(0, 0, 8, 1, 0);
  adr_.store(0, 8, 8, 2, 1);
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_THAT(pairs(0), ElementsAre(Pair{0, 0}, Pair{1, 0}, Pair{1, 2}));
}

TEST_F(PersistencyTest, LinesAreIndependent) {
  adr_.store(0, 0, 8, 1, 0);
  adr_.store(0, 64, 8, 2, 1);
  EXPECT_THAT(may_be(0), ElementsAre(0, 1));
  EXPECT_THAT(may_be(1), ElementsAre(0, 2));
  EXPECT_THAT(adr_.open_lines(), ElementsAre(0, 1));
}

TEST_F(PersistencyTest, AFlushAloneRaisesNoFloor) {
  adr_.store(0, 0, 8, 1, 0);
  adr_.flush(0, 0, clwb);
  EXPECT_THAT(may_be(0), ElementsAre(0, 1));
  EXPECT_TRUE(adr_.fence_raises(0));
  adr_.fence(0);
  EXPECT_THAT(may_be(0), ElementsAre(1));
  EXPECT_FALSE(adr_.fence_raises(0));
}

TEST_F(PersistencyTest, AFlushCapturesOnlyWhatWasVisible) {
  adr_.store(0, 0, 8, 1, 0);
  adr_.flush(0, 0, clwb);
  adr_.store(0, 0, 8, 2, 1);
  adr_.fence(0);
  EXPECT_THAT(may_be(0), ElementsAre(1, 2));
}

TEST_F(PersistencyTest, AFenceOfAnotherThreadDoesNotHelp) {
  adr_.store(0, 0, 8, 1, 0);
  adr_.flush(0, 0, clwb);
  EXPECT_FALSE(adr_.fence_raises(1));
  adr_.fence(1);
  EXPECT_THAT(may_be(0), ElementsAre(0, 1));
}

TEST_F(PersistencyTest, AnotherThreadsFlushCapturesMyStores) {
  adr_.store(0, 0, 8, 1, 0);
  adr_.flush(1, 0, clwb);
  adr_.fence(1);
  EXPECT_THAT(may_be(0), ElementsAre(1));
}

TEST_F(PersistencyTest, ClflushIsItsOwnFloor) {
  adr_.store(0, 0, 8, 1, 0);
  EXPECT_TRUE(adr_.flush_raises(0, Persistency::Flush::clflush));
  adr_.flush(0, 0, Persistency::Flush::clflush);
  EXPECT_THAT(may_be(0), ElementsAre(1));
}

TEST_F(PersistencyTest, StreamedWordsAreUnorderedUntilTheFence) {
  adr_.stream(0, 0, 1, 0);
  adr_.stream(0, 8, 2, 1);
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_THAT(pairs(0), UnorderedElementsAre(Pair{0, 0}, Pair{1, 0}, Pair{0, 2}, Pair{1, 2}));
  adr_.fence(0);
  EXPECT_THAT(pairs(0), ElementsAre(Pair{1, 2}));
}

TEST_F(PersistencyTest, ACertainStoreBehindAnOpenStreamStaysCertain) {
  adr_.stream(0, 0, 1, 0);
  adr_.store(1, 8, 8, 2, 1);
  adr_.flush(1, 0, clwb);
  adr_.fence(1);
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_THAT(pairs(0), UnorderedElementsAre(Pair{0, 2}, Pair{1, 2}));
}

// States are made from the floor, so it must hold what is certain although older steps are not: as
// where a block is streamed to that was freed after a store to it.
TEST_F(PersistencyTest, TheFloorHoldsWhatIsStreamedOverAnOpenStore) {
  adr_.store(0, 0, 8, 1, 0);
  adr_.store(0, 16, 8, 4, 1);
  adr_.stream(0, 0, 2, 2);
  adr_.stream(0, 8, 3, 3);
  adr_.fence(0);
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_THAT(pairs(0), ElementsAre(Pair{2, 3}, Pair{2, 3})) << "with the open word, and without";
  EXPECT_EQ(media_.read(0), adr_.choices(0).front().content);
  adr_.flush(0, 0, clwb);
  adr_.fence(0);
  EXPECT_THAT(pairs(0), ElementsAre(Pair{2, 3}));
  EXPECT_EQ(media_.read(0)[2], 4U);
}

TEST_F(PersistencyTest, ACommittedTransactionIsOneStepPerLine) {
  adr_.store(0, 0, 8, 1, 0, 7);
  adr_.store(0, 8, 8, 2, 1, 7);
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_THAT(pairs(0), ElementsAre(Pair{0, 0}, Pair{1, 2}));
}

TEST_F(PersistencyTest, TheCompilerMayReorderPlainStoresOnlyWhereItIsAllowedTo) {
  Persistency reordering(media_, 16, Domain::adr, 2, true);
  const auto contents = [&](LineNumber line) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs;
    for (const Choice& choice : reordering.choices(line))
      pairs.emplace_back(choice.content[0], choice.content[1]);
    return pairs;
  };
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  constexpr bool plain = true;
  reordering.store(0, 0, 8, 1, 0, 0, plain);
  reordering.store(0, 8, 8, 2, 1, 0, plain);
  EXPECT_THAT(contents(0), UnorderedElementsAre(Pair{0, 0}, Pair{1, 0}, Pair{0, 2}, Pair{1, 2}));
  reordering.store(0, 64, 8, 1, 2, 0, plain);
  reordering.store(0, 72, 8, 2, 3);  // atomic: stays behind
  EXPECT_THAT(contents(1), ElementsAre(Pair{0, 0}, Pair{1, 0}, Pair{1, 2}));
  reordering.store(0, 128, 8, 1, 4, 0, plain);
  reordering.order(0);  // a call
  reordering.store(0, 136, 8, 2, 5, 0, plain);
  EXPECT_THAT(contents(2), ElementsAre(Pair{0, 0}, Pair{1, 0}, Pair{1, 2}));
  reordering.store(0, 192, 8, 1, 6, 0, plain);
  reordering.store(1, 200, 8, 2, 7, 0, plain);  // another thread's
  EXPECT_THAT(contents(3), ElementsAre(Pair{0, 0}, Pair{1, 0}, Pair{1, 2}));
}

TEST_F(PersistencyTest, PlainStoresStayInOrderUnlessAsked) {
  adr_.store(0, 0, 8, 1, 0, 0, true);
  adr_.store(0, 8, 8, 2, 1, 0, true);
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_THAT(pairs(0), ElementsAre(Pair{0, 0}, Pair{1, 0}, Pair{1, 2}));
}

TEST_F(PersistencyTest, NarrowStoresKeepTheRestOfTheirWord) {
  adr_.store(0, 0, 8, 0x1122334455667788, 0);
  adr_.store(0, 2, 2, 0xaaaa, 1);
  EXPECT_THAT(may_be(0), ElementsAre(0, 0x1122334455667788, 0x11223344aaaa7788));
}

TEST_F(PersistencyTest, EqualContentsAreOneChoice) {
  for (std::uint32_t i = 0; i < 10; ++i) adr_.store(0, 0, 8, i % 2, i);
  EXPECT_THAT(may_be(0), ElementsAre(0, 1));
}

TEST_F(PersistencyTest, UnderEadrOnlyTheStoreBufferIsLost) {
  eadr_.store(0, 0, 8, 1, 0);
  eadr_.store(0, 64, 8, 2, 1);
  const auto waiting = eadr_.buffered();
  ASSERT_EQ(waiting.size(), 2U);
  EXPECT_EQ(waiting[0].line, 0U);
  EXPECT_EQ(waiting[1].line, 1U);
  EXPECT_EQ(waiting[1].content[0], 2U);
  EXPECT_FALSE(waiting[0].torn);
  EXPECT_TRUE(eadr_.fence_raises(0));
  eadr_.fence(0);
  EXPECT_TRUE(eadr_.buffered().empty());
  EXPECT_EQ(eadr_media_.read(1)[0], 2U);
}

TEST_F(PersistencyTest, UnderEadrATransactionLeavesTheBufferAsAWhole) {
  eadr_.store(0, 0, 8, 1, 0, 7);
  eadr_.store(0, 64, 8, 2, 1, 7);
  eadr_.store(0, 128, 8, 3, 2);
  const auto waiting = eadr_.buffered();
  ASSERT_EQ(waiting.size(), 3U);
  EXPECT_TRUE(waiting[0].torn);
  EXPECT_FALSE(waiting[1].torn);
  EXPECT_FALSE(waiting[2].torn);
}

TEST_F(PersistencyTest, UnderEadrASwitchDrainsTheBuffer) {
  eadr_.store(0, 0, 8, 1, 0);
  EXPECT_TRUE(eadr_.switch_raises(0));
  eadr_.switched(0);
  EXPECT_EQ(eadr_media_.read(0)[0], 1U);
}

}  // namespace
}  // namespace perdure::crash
