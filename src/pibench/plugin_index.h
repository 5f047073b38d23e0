// An unmodified PiBench wrapper as one more index (`--plugin x.so`).
//
// The wrapper is not trusted. What it answers is passed on as it is, so that verification can find
// it out; what it must never do is counted here and reported by `check_invariants`:
//   U1  it writes no byte outside the value buffer it was given
//   U2  it throws nothing
//   U3  a scan returns 0 .. count records, and the records it returns ascend from the start key
// It can still crash the process, or exit: it runs inside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "index/index.h"

namespace perdure {

/// What a wrapper is created with.
struct PluginOptions {
  std::string library;           ///< path of the shared object
  std::string pool_path;         ///< must not exist yet, or be an empty directory, which some
                                 ///< wrappers want; empty: the wrapper's default
  std::uint64_t pool_bytes = 0;  ///< 0: the wrapper's default
  unsigned threads = 1;
  std::size_t key_bytes = 8;    ///< byte strings: the one length of all keys, at most 128
  std::size_t value_bytes = 8;  ///< byte strings: the one length of all values, at most 1400
};

inline constexpr std::size_t max_plugin_key_bytes = 128;
inline constexpr std::size_t max_plugin_value_bytes = 1400;

/// Counts of what the wrapper did against the rules.
struct PluginViolations {
  std::uint64_t overruns = 0;          ///< U1
  std::uint64_t exceptions = 0;        ///< U2
  std::uint64_t impossible_scans = 0;  ///< U3
  /// Not against the rules: scans whose records were not handed out, so that nothing can be
  /// checked.
  std::uint64_t scans_without_records = 0;
  /// Nor is this: scans that said 0 and handed out nothing. All of them: it cannot scan.
  std::uint64_t scans_of_nothing = 0;
};

/// Loads the wrapper and creates its tree.
///
/// Integer keys and values go over as 8 native-endian bytes. Byte strings must have the lengths
/// that the options name: others are `invalid`, and the wrapper is not called. `upsert` is an
/// update, then an insert. `scan` returns what the wrapper counts where it hands out no records, so
/// more than `out.size()`. `bulk_load` inserts. `size` counts the successes that the wrapper
/// claims. The library stays loaded until the process ends, because wrappers leave threads and
/// thread-local state behind. Errors: not_found, unsupported (dlopen's reason), foreign (no
/// create_tree), exists (pool_path), usage (lengths), failed (create_tree returned null or threw).
template <class Keys>
[[nodiscard]] Result<std::unique_ptr<OrderedIndex<Keys>>> load_plugin(const PluginOptions& options);

/// What a loaded plugin has done wrong so far; nothing for any other index.
template <class Keys>
[[nodiscard]] PluginViolations plugin_violations(const OrderedIndex<Keys>& index);

}  // namespace perdure
