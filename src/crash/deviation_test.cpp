// Where a mutant's floors are lower than the original's, worked out by hand.
#include "crash/deviation.h"

#include <gtest/gtest.h>

#include "crash/persistency.h"

namespace perdure::crash {
namespace {

constexpr auto clwb = static_cast<std::uint8_t>(Persistency::Flush::clwb);
constexpr auto clflush = static_cast<std::uint8_t>(Persistency::Flush::clflush);

Event store(std::uint32_t at, std::uint8_t thread = 0) {
  return {Event::Kind::store, thread, 8, at, 1, nullptr};
}
Event flush(std::uint32_t at, std::uint8_t kind = clwb, std::uint8_t thread = 0) {
  return {Event::Kind::flush, thread, kind, at, 0, nullptr};
}
Event fence(std::uint8_t thread = 0) { return {Event::Kind::fence, thread, 0, 0, 0, nullptr}; }
Event locked(std::uint8_t thread = 0) { return {Event::Kind::locked, thread, 0, 0, 0, nullptr}; }

/// The events before which some floor is lower.
std::vector<std::size_t> lower(const Trace& trace, const std::vector<Deviation>& deviations) {
  std::vector<std::size_t> events;
  const std::vector<bool> found = find_lower_floors(trace, deviations);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i]) events.push_back(i);
  return events;
}
using Numbers = std::vector<std::size_t>;

TEST(DeviationTest, ASoundProgramHasNoLowerFloors) {
  EXPECT_EQ(lower({store(0), flush(0), fence()}, {}), Numbers{});
}

TEST(DeviationTest, AFlushLeftOutMattersFromItsFenceToTheNextFlushAndFenceOfItsLine) {
  // The flush is missing before event 1.
  const Trace trace{store(0), fence(), store(64), flush(64), fence(), flush(0), fence(), store(0)};
  EXPECT_EQ(lower(trace, {{1, flush(0)}}), (Numbers{2, 3, 4, 5, 6}));
}

TEST(DeviationTest, AFenceLeftOutMattersUntilTheThreadExecutesALockedInstruction) {
  const Trace trace{store(0), flush(0), store(64), locked(1), locked(), store(64)};
  EXPECT_EQ(lower(trace, {{2, fence()}}), (Numbers{2, 3, 4}));
}

TEST(DeviationTest, ALateFlushMattersFromOneFenceToTheNext) {
  // Missing before the fence, and there behind it, where the original has none.
  const Trace trace{store(0), fence(), flush(0), store(64), fence(), store(64)};
  EXPECT_EQ(lower(trace, {{1, flush(0)}, {2, std::nullopt}}), (Numbers{2, 3, 4}));
}

TEST(DeviationTest, AFlushOfTheNextLineIsOneLeftOut) {
  const Trace trace{store(64), flush(128), fence(), store(64), flush(64, clflush), store(64)};
  EXPECT_EQ(lower(trace, {{1, flush(64)}, {1, std::nullopt}}), (Numbers{3, 4}));
}

TEST(DeviationTest, WhatAnotherThreadFlushesMakesUpForIt) {
  const Trace trace{store(0), fence(), flush(0, clwb, 1), fence(1), store(0)};
  EXPECT_EQ(lower(trace, {{1, flush(0)}}), (Numbers{2, 3}));
}

}  // namespace
}  // namespace perdure::crash
