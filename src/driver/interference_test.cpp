#include "driver/interference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace perdure::driver {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InterferenceTest : public ::testing::Test {
 protected:
  InterferenceTest()
      : root_(fs::temp_directory_path() / ("perdure_interference_" + std::to_string(getpid()))) {
    fs::create_directories(root_ / "proc");
    std::ofstream(root_ / "proc/loadavg") << "3.25 1.00 0.50 2/100 4711\n";
  }
  ~InterferenceTest() override { fs::remove_all(root_); }

  void write(long user, long steal) const {
    std::ofstream(root_ / "proc/stat")
        << "cpu  " << user << " 0 0 5000 0 0 0 " << steal << " 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
  }

  fs::path root_;
};

TEST_F(InterferenceTest, IsWhatTheSystemCountedMeanwhileLessOurOwn) {
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  write(100, 7);
  const InterferenceWatch watch(root_);
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  write(100 + 600, 7 + 60);
  const auto seen = watch.so_far();
  ASSERT_TRUE(seen.has_value());
  EXPECT_GE(seen->seconds, 0.12);
  EXPECT_NEAR(seen->steal_cores * seen->seconds, 60 / ticks, 1e-6);
  EXPECT_NEAR(seen->other_cores * seen->seconds, 600 / ticks, 0.1);
  EXPECT_EQ(seen->load_average, 3.25);
  EXPECT_EQ(record_of(*seen)["load_average"], 3.25);
}

TEST_F(InterferenceTest, IsUnknownWhereTheSystemDoesNotSay) {
  EXPECT_FALSE(InterferenceWatch(root_).so_far().has_value());
  std::ofstream(root_ / "proc/stat") << "cpu 1 2\n";
  EXPECT_FALSE(InterferenceWatch(root_).so_far().has_value());
}

TEST_F(InterferenceTest, CountsThePeriodsInWhichAQuotaHeldUsBack) {
  const auto put = [this](const char* path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  };
  put("proc/self/cgroup", "0::/a\n");
  put("proc/self/mountinfo", "36 35 0:30 / /cg rw - cgroup2 cgroup rw\n");
  put("cg/a/cpu.stat", "nr_periods 10\nnr_throttled 4\n");
  write(100, 7);
  const InterferenceWatch watch(root_);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  put("cg/a/cpu.stat", "nr_periods 30\nnr_throttled 9\n");
  const auto seen = watch.so_far();
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->throttled_periods, 5U);
  EXPECT_EQ(record_of(*seen)["throttled_periods"], 5);
  EXPECT_THAT(warnings_of(*seen, 1, 1), ::testing::Contains(HasSubstr("in 5 periods")));
}

TEST(Interference, IsWarnedOfWhereThreadsMissTheirCores) {
  const auto lines = [](double steal, double other, unsigned threads) {
    return warnings_of(
        {.seconds = 3, .steal_cores = steal, .other_cores = other, .load_average = 5.5}, threads,
        4);
  };
  EXPECT_THAT(lines(0, 0, 4), IsEmpty());
  EXPECT_THAT(lines(0, 0.05, 4), IsEmpty());  // what any system does
  EXPECT_THAT(lines(0, 1.5, 2), IsEmpty());   // there were cores left for it
  EXPECT_THAT(lines(0, 1.5, 3), ElementsAre(HasSubstr("other processes used 1.50 cores")));
  EXPECT_THAT(lines(0, 1.5, 3), ElementsAre(HasSubstr("load average 5.50")));
  EXPECT_THAT(lines(0.5, 0, 2), ElementsAre(HasSubstr("hypervisor took 0.50 cores")));
}

}  // namespace
}  // namespace perdure::driver
