#include "driver/interrupt.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "pool/pool.h"

namespace perdure::driver {
namespace {

volatile sig_atomic_t flag = 0;
unsigned patience = 0;
std::array<char, std::size_t{16} * PATH_MAX> unfinished{};  // paths, each with its zero byte
struct Identity {
  dev_t device;
  ino_t number;
};
std::array<Identity, Pool::max_parts> unfinished_files{};  // of each path
volatile sig_atomic_t unfinished_paths = 0;

volatile sig_atomic_t pool_stays = 0;
volatile sig_atomic_t unfinished_run = 0;

void note(int) {
  flag = 1;
  if (patience != 0) alarm(patience);
}

// May run on the stack of a simulated thread, which never continues.
void end(int) {
  end_at_once(
      pool_stays != 0
          ? "perdure: interrupted in the middle of an operation: there is no result, and the "
            "pool is as after a crash; --reuse recovers it\n"
          : "perdure: interrupted in the middle of an operation: there is no result\n",
      interrupted_exit_code);
}

void refuse_exit() {
  if (unfinished_run != 0)
    end_at_once(
        "perdure: the index, or a library that it uses, called exit() in the middle of the "
        "run: there is no result\n",
        1);
}

void refuse_abort(int) {
  end_at_once(
      "perdure: the wrapper, or a library that it uses, aborted in the middle of the run: "
      "there is no result\n",
      1);
}

void handle(int signal, void (*handler)(int), int flags) noexcept {
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags;
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

}  // namespace

// Only what a signal handler may do, and no hook (cmake/PerdureSimulation.cmake).
void end_at_once(std::string_view line, int exit_code) noexcept {
  constexpr useconds_t time_to_speak_us = 100'000;
  static std::atomic_flag speaks;  // the system may refuse several threads at once
  if (speaks.test_and_set()) {
    usleep(time_to_speak_us);
    _exit(exit_code);
  }
  const char* path = unfinished.data();
  for (sig_atomic_t i = 0; i < unfinished_paths; ++i) {
    const Identity& made = unfinished_files[static_cast<std::size_t>(i)];
    struct stat status;
    if (lstat(path, &status) == 0 && status.st_dev == made.device && status.st_ino == made.number)
      static_cast<void>(unlink(path));
    while (*path++ != '\0') {
    }
  }
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
  }
  _exit(exit_code);
}

void watch_for_interrupts(unsigned patience_seconds) noexcept {
  patience = patience_seconds;
  if (patience != 0) handle(SIGALRM, end, SA_RESTART);
  for (const int signal : {SIGINT, SIGTERM})
    handle(signal, note, static_cast<int>(SA_RESETHAND | SA_RESTART));
}

bool interrupted() noexcept { return flag != 0; }

void take_all_time() noexcept {
  patience = 0;
  alarm(0);
}

void leave_pool_when_ended() noexcept { pool_stays = 1; }

Unfinished::Unfinished() noexcept {
  static const bool registered =
      std::atexit(refuse_exit) == 0 && std::at_quick_exit(refuse_exit) == 0;
  unfinished_run = registered ? 1 : 0;
}

Unfinished::~Unfinished() { unfinished_run = 0; }

void explain_aborts() noexcept { handle(SIGABRT, refuse_abort, 0); }

void remove_when_ended(std::span<const MadeFile> files) noexcept {
  unfinished_paths = 0;
  std::size_t used = 0;
  sig_atomic_t kept = 0;
  for (const MadeFile& file : files) {
    if (file.path.size() >= unfinished.size() - used) break;
    if (static_cast<std::size_t>(kept) == unfinished_files.size()) break;
    file.path.copy(unfinished.data() + used, file.path.size());
    used += file.path.size();
    unfinished[used++] = '\0';
    unfinished_files[static_cast<std::size_t>(kept++)] = {file.device, file.number};
  }
  unfinished_paths = kept;
}

}  // namespace perdure::driver
