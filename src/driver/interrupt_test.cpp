// Each test is a process of its own: signals and their handlers are the whole process's.
#include "driver/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace perdure::driver {
namespace {

TEST(Interrupt, TheFirstSignalIsAFlagTheSecondKills) {
  EXPECT_EXIT(
      {
        watch_for_interrupts(0);
        raise(SIGTERM);
        if (interrupted()) raise(SIGTERM);
        _exit(1);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(Interrupt, ARunThatNeverAsksIsEndedAndItsFileGoes) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("perdure_interrupt_" + std::to_string(getpid()));
  for (const bool finished : {false, true}) {
    std::ofstream(file) << "half a pool";
    EXPECT_EXIT(
        {
          watch_for_interrupts(1);
          remove_when_ended({&file, 1});
          if (finished) remove_when_ended({});
          raise(SIGINT);
          for (volatile bool forever = true; forever;) {
          }
        },
        ::testing::ExitedWithCode(interrupted_exit_code), "interrupted");
    EXPECT_EQ(std::filesystem::exists(file), finished);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace perdure::driver
