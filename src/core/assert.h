// PERDURE_ASSERT: stops the program on our own mistakes, never on bad input.
// On in every build but Release (PERDURE_CHECKED); a failed assertion names file, line and
// condition.
#pragma once

namespace perdure {

/// Prints the failed condition on stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

#ifdef PERDURE_CHECKED
inline constexpr bool checked_build = true;
#else
inline constexpr bool checked_build = false;
#endif

}  // namespace perdure

#define PERDURE_ASSERT(condition)           \
  (!::perdure::checked_build || (condition) \
       ? static_cast<void>(0)               \
       : ::perdure::assertion_failed(#condition, __FILE__, __LINE__))
