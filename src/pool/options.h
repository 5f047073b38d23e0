// What a pool can be: its kind of heap, its medium, its limits, and the options it is made with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perdure {

enum class HeapKind : std::uint8_t { pmdk, slab, dram, memkind };
[[nodiscard]] const char* name_of(HeapKind kind) noexcept;

struct PoolOptions {
  std::string path;  ///< ignored by `dram`
  HeapKind heap = HeapKind::slab;
  std::uint64_t bytes = 0;        ///< size at creation, at least min_pool_bytes
  bool huge_pages = true;         ///< request them; `Pool::huge_page_bytes` says how many came
  bool prefault = true;           ///< touch every page at creation, not in the timed path
  bool overwrite = false;         ///< replace an existing file at creation
  std::uint64_t map_address = 0;  ///< test hook: map here, 0: anywhere; libpmemobj ignores it
  unsigned parts = 1;             ///< how many files; `bytes` is what they have together
  std::vector<unsigned> nodes{};  ///< NUMA nodes that parts are dealt to; empty: wherever
  std::vector<unsigned> parts_in_dram{};  ///< simulated: these are in their node's DRAM
};

/// How much of a power cut the pool's medium survives; recorded and reported.
enum class Medium : std::uint8_t { devdax, fsdax, tmpfs, page_cache, anonymous };
[[nodiscard]] const char* name_of(Medium medium) noexcept;

/// The limits of every pool; `Pool` inherits them.
struct PoolLimits {
  static constexpr std::uint64_t min_pool_bytes = 16ULL << 20;
  static constexpr std::uint64_t min_image_bytes = 128ULL << 10;  ///< of `create_in`
  static constexpr unsigned max_roots = 32;
  static constexpr unsigned max_parts = 64;
};

}  // namespace perdure
