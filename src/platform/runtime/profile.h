// Profile: virtual time by stack of functions, from the hooks at a function's entry and exit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "platform/model/time.h"
#include "platform/runtime/simulated_thread.h"

namespace perdure::platform::runtime {

/// A function called by way of its parents.
struct CallNode {
  const void* site = nullptr;  ///< an address inside the function
  CallNode* parent = nullptr;
  Time time = 0;  ///< in the function itself
  std::vector<std::unique_ptr<CallNode>> children;
};

class Profile {
 public:
  void enter(SimulatedThread& thread, const void* site);
  void leave(SimulatedThread& thread);
  /// Back to `node`, as after an abort.
  void unwind(SimulatedThread& thread, CallNode* node);
  /// At the begin of a thread's job, and at its end.
  void begin(SimulatedThread& thread);
  void end(SimulatedThread& thread);

  /// "a;b;c 123" lines: names outermost first, virtual ps. Stacks of the same names are one line.
  [[nodiscard]] std::string folded() const;

 private:
  void charge(SimulatedThread& thread) noexcept;

  CallNode root_;
};

}  // namespace perdure::platform::runtime
