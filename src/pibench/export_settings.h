// How the original PiBench is told which of our indexes to drive: environment variables, because
// its own options know nothing of them.
//
//   PERDURE_INDEX        name of the index (required)
//   PERDURE_HEAP         pmdk | slab | dram            default slab
//   PERDURE_DURABILITY   adr | eadr | none             default adr
//   PERDURE_OPTIONS      "leaf_entries=32,inner_entries=64"
//   PERDURE_POOL_BYTES   "4GiB"; overrides --pool_size
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"
#include "index/registry.h"
#include "pibench/tree_api.h"
#include "pm/persist.h"
#include "pool/pool.h"

namespace perdure {

struct ExportSettings {
  const IndexInfo* info = nullptr;
  IndexOptions options;
  HeapKind heap = HeapKind::slab;
  pm::Durability durability = pm::Durability::adr;
  std::string pool_path;
  std::uint64_t pool_bytes = 0;
  unsigned threads = 1;

  /// From the environment and PiBench's options. Errors: usage, naming the variable.
  [[nodiscard]] static Result<ExportSettings> read(const tree_options_t& options);
};

}  // namespace perdure
