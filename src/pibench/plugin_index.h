// An unmodified PiBench wrapper as one more index (`--plugin x.so`).
//
// The wrapper is not trusted. What it answers is passed on as it is, so that verification can find
// it out; what it must never do is counted here and reported by `check_invariants`:
//   U1  it writes no byte outside the value buffer it was given
//   U2  it throws nothing
//   U3  a scan returns 0 .. count records, and the records it returns ascend from the start key
// It can still crash the process, or exit: it runs inside it.
#pragma once

#include <memory>

#include "core/result.h"
#include "index/index.h"
#include "pibench/plugin.h"

namespace perdure {

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
