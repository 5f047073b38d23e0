#include "core/result.h"

#include <cstdio>
#include <cstdlib>

namespace perdure {

void no_value(const Error& error) noexcept {
  std::fprintf(stderr, "perdure: there is no value: %s\n", error.line().c_str());
  std::abort();
}

void no_error() noexcept {
  std::fputs("perdure: there is no error to ask for\n", stderr);
  std::abort();
}

}  // namespace perdure
