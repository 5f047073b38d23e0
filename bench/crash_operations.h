// Operations without a crash, the same source compiled natively and with the explorer's hooks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/rng.h"
#include "index/registry.h"

namespace perdure::bench {

inline constexpr std::uint64_t crash_keys = 256;

/// Seconds of processor time that this process has used: what others run meanwhile is not in it.
[[nodiscard]] double cpu_seconds() noexcept;

/// An index on a pool in memory, with the explorer's small nodes.
struct SmallTree {
  std::unique_ptr<Pool> pool;
  std::unique_ptr<IntegerIndex> index;
};
[[nodiscard]] SmallTree make_small_tree(const IndexInfo& info, std::span<std::byte> memory);

/// Inserts, updates, removals, lookups in equal parts on up to `crash_keys` keys; returns how many
/// came to ok, so that nothing is optimised away.
std::uint64_t run_operations(IntegerIndex& index, Rng& rng, std::uint64_t operations);

}  // namespace perdure::bench
