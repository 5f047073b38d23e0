// Pool: a mapped file or device with a checked header, a table of named roots, and a heap.
//
// On media (heap `slab`):
//   byte 0        4096                                            size
//        | header | blocks of the heap ...                           |
// With heap `pmdk` the file is a libpmemobj pool and the same header is its root object. Off DAX
// the environment variable PMEM_IS_PMEM_FORCE is set to 1, unless it is set, so that libpmemobj
// flushes with instructions as we do, instead of calling msync for every store. With heap `dram`
// there is no file: an anonymous mapping, gone at close. With heap `memkind` there is a file without
// a name: memory of its medium, used as volatile memory, gone at close.
//
// P1  checksums cover every field but the clean-shutdown flag, which has only two valid values;
//     each root has its own (pool/header.h).
// P2  a root entry is visible only when whole: its offset is written last, as one 8-byte word.
// P3  one process at a time: an exclusive lock on the file, released by the kernel when we die.
// P4  a file that is not a whole pool of ours is never written to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "pool/heap.h"
#include "pool/ptr.h"

namespace perdure {

enum class HeapKind : std::uint8_t { pmdk, slab, dram, memkind };
[[nodiscard]] const char* name_of(HeapKind kind) noexcept;

struct PoolOptions {
  std::string path;  ///< ignored by `dram`
  HeapKind heap = HeapKind::slab;
  std::uint64_t bytes = 0;        ///< size at creation, at least min_pool_bytes
  bool huge_pages = true;         ///< ask for them; `Pool::huge_page_bytes` says what came
  bool prefault = true;           ///< touch every page at creation, not in the timed path
  bool overwrite = false;         ///< replace an existing file at creation
  std::uint64_t map_address = 0;  ///< test hook: map here, 0: anywhere; libpmemobj ignores it
};

/// How much of a power cut the pool's medium survives; recorded and reported.
enum class Medium : std::uint8_t { devdax, fsdax, tmpfs, page_cache, anonymous };
[[nodiscard]] const char* name_of(Medium medium) noexcept;

struct PoolRoot {
  std::string name;      ///< at most 31 bytes
  std::uint64_t offset;  ///< a published block of the heap
  std::uint64_t bytes;
};

class Pool {
 public:
  static constexpr std::uint64_t min_pool_bytes = 16ULL << 20;
  static constexpr unsigned max_roots = 32;

  /// Creates the file (refusing an existing one unless `overwrite`) and maps it. Nothing is left
  /// behind on error. Errors: exists, busy, out_of_space, usage, io.
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create(const PoolOptions& options);

  /// Maps an existing pool; the heap kind comes from the file (`options.heap` is ignored).
  /// Errors: not_found, busy, foreign, truncated, corrupt, newer, io.
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open(const PoolOptions& options);

  /// Makes a slab pool in memory of the caller's (page-aligned, whole pages, at least 128 KiB),
  /// which must outlive it; `open_in` opens what is there, clean or cut off. For whoever keeps
  /// images of pools: nothing is mapped, locked or made durable beyond flushes. Errors: as of
  /// create and open.
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create_in(std::span<std::byte> memory);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open_in(std::span<std::byte> memory);

  /// Closes without the clean flag if `close` was not called: the next open recovers.
  virtual ~Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Flushes, sets the clean-shutdown flag, unmaps. The pool must not be used afterwards.
  virtual Result<void> close() = 0;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] Heap& heap() const noexcept { return *heap_; }
  [[nodiscard]] HeapKind heap_kind() const noexcept { return heap_kind_; }
  [[nodiscard]] Medium medium() const noexcept { return medium_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// True when the last use ended with `close`.
  [[nodiscard]] bool was_clean() const noexcept { return was_clean_; }
  /// Bytes of the mapping that the system backs with huge pages, now.
  [[nodiscard]] virtual std::uint64_t huge_page_bytes() const = 0;
  [[nodiscard]] virtual std::string uuid() const = 0;

  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    // As integers: an offset read from damaged media may lie anywhere, until `contains` has judged
    // it.
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(base_) + offset);
  }
  [[nodiscard]] std::uint64_t offset_of(const void* address) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - base_);
  }
  /// True when [offset, offset + bytes) lies inside the mapping and offset is 8-byte aligned:
  /// recovery checks every offset it follows, because media may be corrupt.
  [[nodiscard]] bool contains(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset >= 64 && offset % 8 == 0 && bytes <= bytes_ && offset <= bytes_ - bytes;
  }

  /// Publishes `block` under `name`: durable and atomic. Errors: exists, out_of_space (table full),
  /// usage (name too long or empty).
  virtual Result<void> add_root(std::string_view name, Reservation& block) = 0;
  [[nodiscard]] virtual std::vector<PoolRoot> roots() const = 0;

  /// Called by the owner of a root once it has marked all it can reach (the root block itself is
  /// marked by the pool). When the last root of a reopened pool has reported, the heap sweeps what
  /// is left over and `ready` turns true. A root created in this session needs no call.
  virtual Result<void> root_recovered(std::string_view name) = 0;
  /// False on a reopened pool until every root has been recovered; allocation waits for it.
  [[nodiscard]] bool ready() const noexcept { return ready_; }
  /// Blocks that the last recovery found allocated but unreachable, and freed.
  [[nodiscard]] std::uint64_t leaked_blocks_freed() const noexcept { return leaked_blocks_freed_; }

 protected:
  Pool() = default;

  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<Heap> heap_;
  HeapKind heap_kind_ = HeapKind::slab;
  Medium medium_ = Medium::anonymous;
  std::string path_;
  bool was_clean_ = true;
  bool ready_ = false;
  std::uint64_t leaked_blocks_freed_ = 0;
};

}  // namespace perdure
