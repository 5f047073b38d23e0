// Each test is a process of its own: signals and their handlers are the whole process's.
#include "driver/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
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

// With `finished` there is none to remove any more; with `replaced` it is another run's by now.
void end_a_run(bool finished, bool replaced) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("perdure_interrupt_" + std::to_string(getpid()));
  std::ofstream(file) << "half a pool";
  EXPECT_EXIT(
      {
        watch_for_interrupts(1);
        const auto made = MadeFile::at(file);
        if (!made) _exit(1);
        remove_when_ended({&*made, 1});
        if (finished) remove_when_ended({});
        if (replaced) {
          std::ofstream(file + ".new") << "another's";
          std::filesystem::rename(file + ".new", file);
        }
        raise(SIGINT);
        for (volatile bool forever = true; forever;) {
        }
      },
      ::testing::ExitedWithCode(interrupted_exit_code), "interrupted");
  EXPECT_EQ(std::filesystem::exists(file), finished || replaced);
  std::filesystem::remove(file);
}

TEST(Interrupt, ARunThatNeverAsksIsEndedAndItsFileGoes) {
  end_a_run(false, false);
  end_a_run(true, false);
}

TEST(Interrupt, ARunThatOnlyClosesItsPoolIsGivenTheTime) {
  EXPECT_EXIT(
      {
        watch_for_interrupts(1);
        raise(SIGINT);
        take_all_time();
        sleep(2);
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(Interrupt, APoolThatStaysIsSaidToBeAsAfterACrash) {
  EXPECT_EXIT(
      {
        watch_for_interrupts(1);
        leave_pool_when_ended();
        raise(SIGINT);
        for (volatile bool forever = true; forever;) {
        }
      },
      ::testing::ExitedWithCode(interrupted_exit_code), "as after a crash; --reuse recovers it");
}

TEST(Interrupt, WhoeverExitsBeforeTheWorkIsDoneHasFailed) {
  EXPECT_EXIT(
      {
        const Unfinished unfinished;
        std::exit(0);
      },
      ::testing::ExitedWithCode(1), "called exit");
  EXPECT_EXIT(
      {
        { const Unfinished unfinished; }
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Interrupt, WhatAnotherRunPutInItsPlaceStays) { end_a_run(false, true); }

}  // namespace
}  // namespace perdure::driver
