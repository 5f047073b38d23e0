#include "driver/caches.h"

#include <gtest/gtest.h>

namespace perdure::driver {
namespace {

using probe::Kind;
using probe::Op;
using probe::Point;

const std::vector<CacheLevel> levels = {
    {1, 32 << 10, false}, {2, 1 << 20, false}, {3, 8 << 20, true}};

unsigned level_of(const Point& point) {
  const auto found = cache_that_answers(point, levels);
  return found ? found->level : 0;
}

Point loads(std::uint64_t region_bytes, unsigned threads = 1) {
  Point point;
  point.region_bytes = region_bytes;
  point.threads = threads;
  return point;
}

TEST(Caches, AnswerForARegionThatTheyHold) {
  EXPECT_EQ(level_of(loads(32 << 10)), 1U);
  EXPECT_EQ(level_of(loads(64 << 10)), 2U);
  EXPECT_EQ(level_of(loads(64 << 10, 2)), 1U);  // a half for each thread's core
  EXPECT_EQ(level_of(loads(8 << 20)), 3U);
  EXPECT_EQ(level_of(loads(9 << 20)), 0U);
  EXPECT_EQ(level_of(loads(16 << 20, 2)), 0U);  // the last level is one
  EXPECT_FALSE(cache_that_answers(loads(64), {}).has_value());
}

TEST(Caches, DoNotAnswerForWhatTheProbeTakesOut) {
  Point point = loads(64 << 10);
  point.op = Op::store;
  EXPECT_EQ(level_of(point), 2U);
  for (const Op op : {Op::ntstore, Op::store_flush}) {
    point.op = op;
    point.mix_reads = 0;
    EXPECT_EQ(level_of(point), 0U);
    point.mix_reads = 0.5;
    EXPECT_EQ(level_of(point), 2U);
  }
  for (const Kind kind : {Kind::chase, Kind::write_buffer, Kind::cached}) {
    point = loads(64 << 10);
    point.kind = kind;
    EXPECT_EQ(level_of(point), 0U);
  }
}

TEST(Caches, OfThisMachineGrow) {
  std::uint64_t before = 0;
  for (const CacheLevel& level : cache_levels()) {
    EXPECT_GE(level.bytes, before);
    before = level.bytes;
  }
}

}  // namespace
}  // namespace perdure::driver
