#include "driver/progress.h"

#include <unistd.h>

#include <cstdio>

namespace perdure::driver {

Progress::Progress(bool quiet) noexcept : on_(!quiet && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::show(std::string_view phase, double share, double rate_ops_s) {
  if (!on_) return;
  const auto length = static_cast<int>(phase.size());
  if (share >= 0)
    std::fprintf(stderr, "\r\033[K%.*s %3.0f %%  %.2f Mop/s", length, phase.data(), share * 100,
                 rate_ops_s / 1e6);
  else
    std::fprintf(stderr, "\r\033[K%.*s ...", length, phase.data());
  dirty_ = true;
}

void Progress::clear() {
  if (!dirty_) return;
  std::fputs("\r\033[K", stderr);
  dirty_ = false;
}

}  // namespace perdure::driver
