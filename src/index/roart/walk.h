// Roart::Walk: how far the walk after an instant restart has come.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "index/roart/roart.h"

namespace perdure {

/// Where the walk is: all before the symbol at `level` of the path is touched.
template <class Keys>
struct Roart<Keys>::Walk {
  static constexpr unsigned arrays_at_a_time = 64;

  bool has_worker = false;
  unsigned arrays_a_change = 4;  ///< of a changing operation where there is no worker
  std::thread worker;
  std::atomic<bool> stopping{false};
  pm::VersionLock lock;  ///< guards the cursor, and the end of the walk
  std::string path;      ///< of the cursor's node
  unsigned level = 0;
  unsigned symbol = 0;

  [[nodiscard]] unsigned symbol_at(unsigned position) const noexcept {
    if (position == level) return symbol;
    return position < level ? roart::symbol_at(KeyPath<ByteKeys>(path), position) : 0;
  }
};

}  // namespace perdure
