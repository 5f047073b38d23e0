// Known states: which ones count as the same, and which do not. Reads are told by hand.
#include "crash/known.h"

#include <gtest/gtest.h>

#include <functional>

namespace perdure::crash {
namespace {

class KnownTest : public testing::Test {
 protected:
  static constexpr std::size_t image_bytes = 4096;

  KnownTest() {
    known_.begin({{0, ~Bytes{0}}, {1, bytes_at(0, 16)}});
    image_.mark();
  }
  ~KnownTest() override { image_.undo(); }

  void set(std::size_t word, std::uint64_t value) {
    const auto line = static_cast<LineNumber>(word / words_a_line);
    LineContent content = image_.read(line);
    content[word % words_a_line] = value;
    image_.write(line, content);
  }
  void reads(std::size_t at, std::size_t bytes) { watch_.read(image_.base() + at, bytes, nullptr); }
  void stores(std::size_t at, std::size_t bytes) {
    watch_.write(image_.base() + at, bytes, nullptr);
  }
  /// The image's state passes; recovery does `what` and finds this stamp.
  void passes(std::uint64_t stamp, const std::function<void()>& what) {
    known_.follow(watch_);
    EXPECT_EQ(watch_.run(what), Ending::returned);
    known_.unfollow(watch_);
    known_.learn({.found = {stamp}});
  }
  /// Of the image's state; 0: not known.
  [[nodiscard]] std::uint64_t stamp() const {
    const Known::Outcome* const found = known_.find();
    return found == nullptr ? 0 : found->found.at(0);
  }

  Image image_{image_bytes};
  Watch watch_{image_};
  Known known_{image_};
};

TEST_F(KnownTest, NothingIsKnownAtFirst) { EXPECT_EQ(stamp(), 0U); }

TEST_F(KnownTest, AStateThatDiffersInWhatIsNotReadIsKnown) {
  passes(7, [&] { reads(0, 8); });
  set(1, 99);
  EXPECT_EQ(stamp(), 7U);
  set(0, 99);
  EXPECT_EQ(stamp(), 0U);
}

TEST_F(KnownTest, BytesBesideThoseReadDoNotCount) {
  passes(7, [&] { reads(3, 1); });
  set(0, 0xffff'ffff'00ff'ffff);
  EXPECT_EQ(stamp(), 7U);
  set(0, 0x0000'0000'0100'0000);
  EXPECT_EQ(stamp(), 0U);
}

TEST_F(KnownTest, WhatIsStoredToBeforeItIsReadDoesNotCount) {
  passes(7, [&] {
    stores(4, 4);
    reads(0, 8);
  });
  set(0, 0xffff'ffff'0000'0000);
  EXPECT_EQ(stamp(), 7U);
  set(0, 1);
  EXPECT_EQ(stamp(), 0U);
}

// What one value leads to says nothing of another, and each may read on elsewhere.
TEST_F(KnownTest, EachValueLeadsToItsOwnReadsAndOutcome) {
  passes(7, [&] {
    reads(0, 8);
    reads(64, 8);
  });
  set(0, 1);
  passes(8, [&] {
    reads(0, 8);
    reads(72, 8);
  });
  set(8, 5);
  EXPECT_EQ(stamp(), 8U);
  set(9, 5);
  EXPECT_EQ(stamp(), 0U);
  set(9, 0);
  set(0, 0);
  EXPECT_EQ(stamp(), 0U);
  set(8, 0);
  EXPECT_EQ(stamp(), 7U);
}

TEST_F(KnownTest, AReadAcrossTheEndOfALineCountsInBoth) {
  passes(7, [&] { reads(60, 8); });
  set(8, 1);
  EXPECT_EQ(stamp(), 0U);
  set(8, std::uint64_t{1} << 32);
  EXPECT_EQ(stamp(), 7U);
}

TEST_F(KnownTest, ANewBeginningForgetsAll) {
  passes(7, [&] { reads(0, 8); });
  known_.begin({{0, ~Bytes{0}}});
  EXPECT_EQ(stamp(), 0U);
}

}  // namespace
}  // namespace perdure::crash
