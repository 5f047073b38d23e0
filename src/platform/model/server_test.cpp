#include "platform/model/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/rng.h"

namespace perdure::platform {
namespace {

TEST(ServerTest, ServesOneAfterTheOther) {
  Server server;
  EXPECT_EQ(server.reserve(10, 5), 10U);
  EXPECT_EQ(server.reserve(12, 5), 15U);
  EXPECT_EQ(server.free_from(12), 20U);
  EXPECT_EQ(server.free_from(30), 30U);
}

TEST(ServerTest, ARequestForLaterKeepsNoEarlierOneWaiting) {
  Server server;
  EXPECT_EQ(server.reserve(1000, 10), 1000U);
  EXPECT_EQ(server.reserve(2000, 10), 2000U);
  EXPECT_EQ(server.reserve(100, 10), 100U);
  EXPECT_EQ(server.reserve(100, 10), 110U) << "behind the one that is there";
  EXPECT_EQ(server.reserve(50, 10), 50U) << "before it";
  EXPECT_EQ(server.reserve(995, 10), 1010U) << "5 ns are too short";
  EXPECT_EQ(server.reserve(995, 5), 995U) << "and enough for this";
  EXPECT_EQ(server.free_from(1999), 1999U);
  EXPECT_EQ(server.free_from(2005), 2010U);
}

TEST(ServerTest, DelaysOnlyWhatHasNotStarted) {
  Server server;
  EXPECT_EQ(server.reserve(0, 10), 0U);
  server.delay(5, 20);
  EXPECT_EQ(server.reserve(0, 10), 30U);
}

// Whatever the order of the requests, no two are served at the same time and none too early.
TEST(ServerTest, NeverServesTwoAtOnce) {
  Rng rng(7, 0);
  Server server;
  struct Served {
    Time start, end;
  };
  std::vector<Served> all;
  Time now = 0;
  for (int i = 0; i < 20'000; ++i) {
    now += rng.below(40);
    const Time from = now + (rng.below(4) == 0 ? rng.below(3000) : 0);
    const Time occupancy = 1 + rng.below(30);
    const Time start = server.reserve(from, occupancy);
    ASSERT_GE(start, from);
    all.push_back({start, start + occupancy});
  }
  std::ranges::sort(all, {}, &Served::start);
  for (std::size_t i = 1; i < all.size(); ++i) ASSERT_LE(all[i - 1].end, all[i].start) << i;
}

}  // namespace
}  // namespace perdure::platform
