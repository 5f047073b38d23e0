#include "core/assert.h"

#include <cstdio>
#include <cstdlib>

namespace perdure {

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "perdure: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace perdure
