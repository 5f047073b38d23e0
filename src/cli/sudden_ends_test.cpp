// Ends that a run does not choose: a wrapper that ends the process or never returns, and a system
// that gives no more memory, threads or file.
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/test_program.h"

namespace perdure::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SuddenEnds : public Cli {
 protected:
  Finished run_within(const std::string& limits, const std::string& arguments) {
    const int status = std::system((limits + "; " + command(arguments)).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content(folder_ / "stdout"),
            content(folder_ / "stderr")};
  }

  static void expect_line(const Finished& finished, int code, const std::string& says) {
    EXPECT_EQ(finished.code, code) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_TRUE(finished.err.starts_with("perdure: ")) << finished.err;
    EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(says));
  }
};

#ifdef PERDURE_LYING_WRAPPER
constexpr const char* run_of_wrapper =
    "bench --records 1k --operations 1k --repetitions 1 --quiet --json --mix lookup=1 "
    "--plugin " PERDURE_LYING_WRAPPER " --pool p ";

TEST_F(SuddenEnds, AWrapperThatEndsTheProcessHasFailed) {
  struct End {
    const char* lie;
    const char* says;
  };
  for (const End& end : {End{"exit", "called exit()"}, End{"exit_at_load", "called exit()"},
                         End{"exit_at_create", "called exit()"}, End{"quick_exit", "called exit()"},
                         End{"abort", "aborted in the middle"}, End{"throw_unseen", "nobody's"}}) {
    setenv("LYING_WRAPPER", end.lie, 1);
    expect_line(run(run_of_wrapper), 1, end.says);
  }
  unsetenv("LYING_WRAPPER");
}

TEST_F(SuddenEnds, AWrapperThatNeverReturnsIsEndedAfterASignal) {
  for (const char* lie : {"hang", "hang_at_load", "hang_at_create"}) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("LYING_WRAPPER", lie, 1);
      execl("/bin/sh", "sh", "-c", command(run_of_wrapper).c_str(), nullptr);
      _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const auto sent = std::chrono::steady_clock::now();
    kill(child, SIGTERM);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(15)) << lie;
    ASSERT_TRUE(WIFEXITED(status)) << lie;
    expect_line({WEXITSTATUS(status), content(folder_ / "stdout"), content(folder_ / "stderr")},
                130, "interrupted in the middle of an operation");
  }
}
#endif

TEST_F(SuddenEnds, MoreMemoryThanThereIsIsRefusedBeforeTheRun) {
  for (const char* what : {"--heap dram --pool-bytes 100TiB", "--heap dram --records 60G"}) {
    const Finished refused = run(std::string("bench --index fptree ") + what);
    expect_line(refused, 2, "free within");
    for (const char* remedy : {"--pool-bytes", "--records"})
      EXPECT_THAT(refused.err, HasSubstr(remedy));
  }
  expect_line(run("bench --index stdmap --records 60G"), 2, "fewer --records");
}

TEST_F(SuddenEnds, WhatTheSystemDoesNotGiveIsALine) {
  constexpr const char* pool = "bench --index fptree --pool p --records 100k --quiet --json ";
  struct Limit {
    const char* limit;
    const char* arguments;
    const char* says;
  };
  for (const Limit& each :
       {Limit{"ulimit -f 10000", pool, "ulimit -f"},
        Limit{"ulimit -v 2000000", "bench --index null --threads 240", "ulimit -"},
        Limit{"ulimit -v 200000", "bench --index stdmap --records 20M --quiet", "ulimit -v"}}) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    if (each.limit != std::string_view("ulimit -f 10000")) continue;  // it reserves terabytes
#endif
    fs::remove(folder_ / "stdout");
    fs::remove(folder_ / "stderr");
    expect_line(run_within(each.limit, each.arguments), 2, each.says);
    EXPECT_FALSE(fs::exists(folder_ / "p")) << each.limit;
  }
}

}  // namespace
}  // namespace perdure::cli
