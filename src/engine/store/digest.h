// Digest: what a store holds, as a number that two stores share exactly when they hold the same
// documents under the same keys, and the same index entries for them. Ids and places differ from
// store to store, so an entry counts with the key of its document.
//
// Each document and each entry gives a pair of CRC-64s, of different polynomials, which are mixed
// and added up: entries that differ in their ids alone stand in another order in another store, so
// the order must not matter. It finds accidents, not attacks.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/result.h"

namespace perdure::engine {

class DocumentStore;

struct Digest {
  std::array<std::uint64_t, 2> sum{};
  std::uint64_t documents = 0;
  std::uint64_t entries = 0;

  /// 32 hexadecimal digits.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// Reads everything; no other operation may run. Errors: corrupt.
[[nodiscard]] Result<Digest> digest_of(const DocumentStore& store);

}  // namespace perdure::engine
