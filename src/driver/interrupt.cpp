#include "driver/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <initializer_list>
#include <string_view>

namespace perdure::driver {
namespace {

volatile sig_atomic_t flag = 0;
unsigned patience = 0;
std::array<char, std::size_t{16} * PATH_MAX> unfinished{};  // paths, each with its zero byte
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

void remove_when_ended(std::span<const std::string> paths) noexcept {
  unfinished_paths = 0;
  std::size_t used = 0;
  sig_atomic_t kept = 0;
  for (const std::string& path : paths) {
    if (path.size() >= unfinished.size() - used) break;
    path.copy(unfinished.data() + used, path.size());
    used += path.size();
    unfinished[used++] = '\0';
    ++kept;
  }
  unfinished_paths = kept;
}

}  // namespace perdure::driver
