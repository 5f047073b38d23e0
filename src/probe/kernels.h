// Kernels: the measured loops. Each runs on one thread, touches nothing but the probed memory and
// its registers, and reaches memory only by plain accesses and the pm:: facade; so the same source
// is timed by a real machine and, compiled with access hooks, by the simulated one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "probe/point.h"
#include "probe/rig.h"

namespace perdure::probe {

/// One thread's part of a bandwidth point.
struct AccessLoop {
  Op op = Op::load;
  Pattern pattern = Pattern::seq;
  std::byte* slice = nullptr;       ///< this thread's own memory, line aligned
  std::uint64_t slice_bytes = 0;    ///< at least one access
  std::uint64_t access_bytes = 64;  ///< multiple of 64, or 8, 16, 32
  std::uint64_t stride_bytes = 0;
  std::uint64_t align_bytes = 64;  ///< of random accesses
  std::uint64_t operations = 0;
  std::uint64_t operations_per_mark = 1;
  FenceInterval fence_every = 0;
  std::uint64_t cost_ps = 0;
  bool cost_waits = true;  ///< it comes after the misses of its operation
  bool state = false;      ///< a store to a line of the benchmark's own per operation
  double mix_reads = 0;
  std::uint64_t key = 0;    ///< of the address order
  std::uint64_t first = 0;  ///< slot at which a sequential walk begins
};

/// Runs the loop; marks time every `operations_per_mark`. The result depends on all that was read.
std::uint64_t run_accesses(const AccessLoop& loop, const Lane& lane) noexcept;

/// A chain of blocks within [base, base + blocks * block_bytes), in the order of a permutation.
struct Chain {
  std::byte* base = nullptr;
  std::uint64_t blocks = 1;  ///< in the region
  std::uint64_t links = 1;   ///< of them in the chain, which is closed to a ring
  std::uint64_t block_bytes = 64;
  std::uint64_t key = 0;
};

/// Writes the pointers: the last line of each block holds the address of the next block.
void link_chain(const Chain& chain) noexcept;

/// `passes` times `links_per_pass` blocks: all lines of a block are read, the last one gives the
/// next block. Every pass ends with a full fence and a mark. `flush_first`: the lines of the pass
/// are taken out of the caches before it, unmarked, so that the memory answers and not the cache.
std::uint64_t chase_loads(const Chain& chain, std::uint64_t passes, std::uint64_t links_per_pass,
                          std::uint64_t links_per_mark, bool flush_first,
                          const Lane& lane) noexcept;

/// `links` single lines of the ring, each waited for and marked alone.
std::uint64_t chase_singly(const Chain& chain, std::uint64_t links, const Lane& lane) noexcept;

/// The same order with streaming stores: the next block is computed and not loaded; a pass ends
/// with a full fence.
void chase_streams(const Chain& chain, std::uint64_t passes, std::uint64_t links_per_pass,
                   std::uint64_t links_per_mark, const Lane& lane) noexcept;

/// One access at a time, each waited for before the next and marked alone. Store and flush: the
/// line is loaded first, unmarked. `empty`: the loop without the access, for its own cost.
std::uint64_t single_accesses(const AccessLoop& loop, bool empty, const Lane& lane) noexcept;

/// First halves of all XPLines of [base, base + xplines * 256) one after the other, then the second
/// halves, `rounds` times, by streaming stores without fences.
void write_halves(std::byte* base, std::uint64_t xplines, std::uint64_t rounds,
                  const Lane& lane) noexcept;

/// I1's loop over [base, base + lines * 64): thread `thread` of `threads` takes chunks of 64 lines
/// in turn (OpenMP's schedule(static, 64)).
struct CachedLoop {
  std::byte* base = nullptr;
  std::uint64_t lines = 0;
  unsigned thread = 0;
  unsigned threads = 1;
  Op op = Op::load;
  Variant variant = Variant::as_published;
  std::uint64_t cost_ps = 0;  ///< of a line, after its loads
};

/// Links the lines that each thread visits, for Variant::dependent.
void link_cached(const CachedLoop& loop) noexcept;
/// Reads the first `lines` lines, which puts them into the cache.
std::uint64_t prime(const std::byte* base, std::uint64_t lines) noexcept;
/// Flushes every line of the region and fences.
void flush_region(const std::byte* base, std::uint64_t bytes) noexcept;
/// The measured part: marks once per chunk.
std::uint64_t run_cached(const CachedLoop& loop, const Lane& lane) noexcept;

}  // namespace perdure::probe
