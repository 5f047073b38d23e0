#include "index/common/parallel.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace perdure {
namespace {

Error refusal(std::size_t at) { return {ErrorCode::corrupt, "item " + std::to_string(at), "", ""}; }

class GrowingWorkTest : public testing::TestWithParam<unsigned> {};

TEST_P(GrowingWorkTest, EveryItemIsDoneOnceThoughTheyAreStillBeingFound) {
  constexpr std::size_t count = 20'000;
  std::vector<std::size_t> items;
  items.reserve(count);
  std::vector<std::atomic<int>> done(count);
  const auto job = [&](std::size_t begin, std::size_t end) -> Result<void> {
    for (std::size_t i = begin; i < end; ++i) done[items[i]].fetch_add(1);
    return {};
  };
  GrowingWork work(GetParam(), job);
  while (items.size() < count) {
    items.push_back(count - 1 - items.size());
    if (items.size() % 100 == 0) work.grow(items.size());
  }
  ASSERT_TRUE(work.finish(items.size()).ok());
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(done[i], 1) << i;
}

TEST_P(GrowingWorkTest, AnErrorEndsTheWork) {
  std::atomic<std::size_t> after{0};
  const auto job = [&](std::size_t begin, std::size_t end) -> Result<void> {
    if (begin <= 700 && 700 < end) return refusal(700);
    if (begin > 700) after.fetch_add(1);
    return {};
  };
  GrowingWork work(GetParam(), job);
  work.grow(2'000);
  const Result<void> ended = work.finish(10'000'000);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().what, "item 700");
  if (GetParam() == 1) EXPECT_EQ(after, 0U);
}

TEST_P(GrowingWorkTest, WhoeverFindsTheItemsMayGiveUp) {
  std::atomic<std::size_t> begun{0};
  const auto job = [&](std::size_t begin, std::size_t end) -> Result<void> {
    begun.fetch_add(end - begin);
    return {};
  };
  {
    GrowingWork work(GetParam(), job);
    work.grow(5'000);
  }
  EXPECT_LE(begun, 5'000U);
}

TEST_P(GrowingWorkTest, NothingIsNothing) {
  const auto job = [](std::size_t begin, std::size_t) -> Result<void> { return refusal(begin); };
  GrowingWork work(GetParam(), job);
  EXPECT_TRUE(work.finish(0).ok());
}

INSTANTIATE_TEST_SUITE_P(Threads, GrowingWorkTest, testing::Values(1U, 2U, 4U));

}  // namespace
}  // namespace perdure
