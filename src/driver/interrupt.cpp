#include "driver/interrupt.h"

#include <signal.h>

#include <initializer_list>

namespace perdure::driver {
namespace {

volatile sig_atomic_t flag = 0;

void note(int) { flag = 1; }

}  // namespace

void watch_for_interrupts() noexcept {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool interrupted() noexcept { return flag != 0; }

}  // namespace perdure::driver
