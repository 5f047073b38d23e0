// Callers: the code on whose behalf the facade or the standard library accesses memory.
//
// Where such code is not inlined, the place of a flush or store lies inside it, and all its callers
// would look like one. So a hook's place is followed up the stack, through frames that are only
// carriers, to the first that is not.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

namespace perdure::crash {

class Callers {
 public:
  /// `pc`, or the return address of the first frame above it that is no carrier's. Call it from
  /// below the hook whose return address `pc` is; every frame up to there keeps a frame pointer.
  [[nodiscard, gnu::noinline]] const void* of(const void* pc);

 private:
  [[nodiscard]] bool carries(const void* pc);

  struct Known {
    const void* pc = nullptr;
    bool carrier = false;
  };
  [[nodiscard]] bool look_up(const void* pc);

  std::array<Known, 1024> recent_{};  ///< by address
  /// Of the whole process, because to ask the loader for a name takes longer than a small recovery.
  static thread_local std::unordered_map<const void*, bool> known_;
};

/// True for a function, by its demangled name, that only acts for its caller.
[[nodiscard]] bool is_carrier(const char* function) noexcept;

}  // namespace perdure::crash
