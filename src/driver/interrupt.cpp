#include "driver/interrupt.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
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

void note(int) {
  flag = 1;
  if (patience != 0) alarm(patience);
}

// Only what a signal handler may do, and no hook (cmake/PerdureSimulation.cmake). The stack may be
// a simulated thread's: it is that thread's own, and nothing goes on there.
void end(int) {
  constexpr std::string_view text =
      "perdure: interrupted in the middle of an operation: nothing is kept\n";
  const char* path = unfinished.data();
  for (sig_atomic_t i = 0; i < unfinished_paths; ++i) {
    const Identity& made = unfinished_files[static_cast<std::size_t>(i)];
    struct stat status;
    if (lstat(path, &status) == 0 && status.st_dev == made.device && status.st_ino == made.number)
      static_cast<void>(unlink(path));
    while (*path++ != '\0') {
    }
  }
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) {
  }
  _exit(interrupted_exit_code);
}

}  // namespace

void watch_for_interrupts(unsigned patience_seconds) noexcept {
  patience = patience_seconds;
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  action.sa_handler = end;
  if (patience != 0) sigaction(SIGALRM, &action, nullptr);
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  action.sa_handler = note;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool interrupted() noexcept { return flag != 0; }

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
