// Target: what a suite runs on: one registered index, one heap, one kind of key. The lists are made
// from the registry, so that a new index folder is enrolled without a word in tests/.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "index/registry.h"

namespace perdure::testing {

struct Target {
  const IndexInfo* info = nullptr;
  HeapKind heap = HeapKind::dram;  ///< meaningless for indexes without a pool
  KeyKind kind = KeyKind::integer;
  std::vector<std::string> options{};  ///< name=value, besides those a test gives

  [[nodiscard]] bool uses_pool() const { return perdure::uses_pool(info->index_class); }
  [[nodiscard]] bool recovers() const { return info->recovers(kind); }
  /// "fptree_slab_integer": a gtest parameter name.
  [[nodiscard]] std::string name() const;
};

std::ostream& operator<<(std::ostream& out, const Target& target);

/// Every registered index that keeps what it is given, on every heap, for each kind of key it has.
[[nodiscard]] std::vector<Target> all_targets();
/// Those whose content outlives the process: persistent on slab and pmdk, and on_disk; and with
/// two pools, where the index can live in them.
[[nodiscard]] std::vector<Target> recovering_targets();
/// Of these, those whose operations a kill leaves whole, except for torn values.
[[nodiscard]] std::vector<Target> killable_targets();
/// Persistent ones on slab and pmdk.
[[nodiscard]] std::vector<Target> pool_targets();

/// `name=value` pairs that make nodes as small as the index allows (never below 4 entries), so that
/// splits and merges happen all the time.
[[nodiscard]] std::vector<std::string> small_nodes(const IndexInfo& info);

/// For tests that fill a pool: a list is searched from its beginning, and one that long would take
/// hours.
[[nodiscard]] std::vector<std::string> short_list(const IndexInfo& info);

/// PERDURE_TEST_FACTOR (default 1): scales how much a suite does. Sanitizer builds set it below 1,
/// nightly runs above.
[[nodiscard]] std::uint64_t scaled(std::uint64_t amount, std::uint64_t least = 1);

/// PERDURE_TEST_SEED, or the seed given; suites print it with every failure.
[[nodiscard]] std::uint64_t seed_or(std::uint64_t fallback);

}  // namespace perdure::testing
