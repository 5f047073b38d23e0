// DurableSet: what the lists and the hash set offer: a map of integers whose values are never
// replaced, because one word decides whether a key is present; as a set, with any values.
//
// It is an IntegerIndex, so that whatever measures, explores or tests indexes takes it, too, but
// for `update` and `upsert`, which it refuses (IndexInfo::replaces says so beforehand).
#pragma once

#include "index/index.h"

namespace perdure {

class DurableSet : public IntegerIndex {
 public:
  /// True where the key is present.
  [[nodiscard]] bool contains(std::uint64_t key) {
    std::uint64_t ignored = 0;
    return lookup(key, ignored) == Outcome::ok;
  }
  Outcome upsert(std::uint64_t, std::uint64_t) final { return Outcome::invalid; }
  Outcome update(std::uint64_t, std::uint64_t) final { return Outcome::invalid; }
};

}  // namespace perdure
