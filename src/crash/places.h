// Places: from addresses of code to lines of source, for people.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "crash/trace.h"

namespace perdure::crash {

struct Place {
  std::string function;  ///< empty: unknown
  std::string file;  ///< as the compiler was given it, cut to begin at src/, examples/ or tests/
  unsigned line = 0;
  bool lock = false;  ///< it takes or releases a lock of the facade
  /// "FILE:LINE in FUNCTION".
  [[nodiscard]] std::string show() const;
  /// "FILE:LINE", or as above where that is not known.
  [[nodiscard]] std::string show_line() const;
};

/// Looks many addresses up at once, through addr2line; without it, or without debug information,
/// only functions are known.
class Places {
 public:
  /// The innermost place outside the facade and the standard library.
  [[nodiscard]] const Place& of(const void* pc);
  void prepare(const std::vector<const void*>& pcs);
  /// The places of all events.
  void prepare(const Trace& trace);

 private:
  std::map<const void*, Place> known_;
};

}  // namespace perdure::crash
