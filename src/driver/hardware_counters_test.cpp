#include "driver/hardware_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace perdure::driver {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t page_faults = 5;

/// Touches so many pages for the first time.
void touch(std::size_t pages) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const at =
      mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  ASSERT_EQ(madvise(at, pages * page, MADV_NOHUGEPAGE), 0);
  for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char*>(at)[i * page] = 1;
  munmap(at, pages * page);
}

TEST(HardwareCounters, CountTheirThreadBetweenResumeAndPause) {
  HardwareCounters counters;
  if (!counters.read().values[page_faults]) {  // a container may refuse all of them
    EXPECT_THAT(counters.read().missing, HasSubstr("page_faults"));
    return;
  }
  touch(50);
  counters.resume();
  touch(100);
  std::thread(touch, 5000).join();
  counters.pause();
  touch(5000);
  counters.resume();
  touch(10);
  counters.pause();
  const std::uint64_t seen = *counters.read().values[page_faults];
  EXPECT_GE(seen, 110U);
  EXPECT_LT(seen, 2000U) << "a sanitizer's own pages among them";
}

TEST(HardwareCounters, WhatIsAbsentHasAReason) {
  const HardwareCounts counts = HardwareCounters().read();
  for (std::size_t i = 0; i < counts.values.size(); ++i)
    if (!counts.values[i]) {
      EXPECT_THAT(counts.missing, HasSubstr(HardwareCounts::names[i]));
    }
  const auto record = record_of(counts);
  EXPECT_EQ(record["counters"].size(), counts.values.size());
  EXPECT_EQ(record["missing"].is_null(), counts.missing.empty());
}

TEST(HardwareCounters, WhatOneThreadLacksIsAbsentOfAll) {
  const std::array threads = {
      HardwareCounts{.values = {10, 20, 30}, .missing = ""},
      HardwareCounts{.values = {1, std::nullopt, 3}, .missing = "instructions: none"}};
  const HardwareCounts sum = sum_of(threads);
  EXPECT_EQ(sum.values[0], 11U);
  EXPECT_FALSE(sum.values[1].has_value());
  EXPECT_EQ(sum.values[2], 33U);
  EXPECT_EQ(sum.missing, "instructions: none");
  EXPECT_EQ(record_of(sum)["counters"]["llc_misses"], 33);
  EXPECT_TRUE(record_of(sum)["counters"]["instructions"].is_null());
}

}  // namespace
}  // namespace perdure::driver
