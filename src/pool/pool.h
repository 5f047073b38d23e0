// Pool: a mapped file or device with a checked header, a table of named roots, and a heap.
//
// On media (heap `slab`):
//   byte 0        4096                                            size
//        | header | blocks of the heap ...                           |
// With heap `pmdk` the file is a libpmemobj pool and the same header is its root object. Off DAX
// the environment variable PMEM_IS_PMEM_FORCE is set to 1, unless it is set, so that libpmemobj
// flushes with instructions as we do, instead of calling msync for every store. With heap `dram`
// there is no file: an anonymous mapping, gone at close. With heap `memkind` there is a file
// without a name: memory of its medium, used as volatile memory, gone at close.
//
// A pool may be made of several parts, one for each NUMA node, say. Each is a file like that, and
// all are of one size. Part n is mapped `n << part_shift` after the first, where 1 << part_shift
// is the least power of two that a part fits in:
//   base() + 0                1 << part_shift           2 << part_shift
//          | part 0 | nothing | part 1 | nothing ...    |
// So an offset, its upper bits the part's number, leads into any part by one addition, and nothing
// but the heap and `contains` knows of parts.
//
// P1  checksums cover every field but the clean-shutdown flag, which has only two valid values;
//     each root has its own (pool/header.h).
// P2  a root entry is visible only when whole: its offset is written last, as one 8-byte word.
// P3  one process at a time: an exclusive lock on the file, released by the kernel when we die.
// P4  a file that is not a whole pool of ours is never written to.
// P5  the roots and the clean-shutdown flag of all parts are those of the first, the file that is
//     named last; a pool is opened only with all its parts, told by one id (pool/header.h).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "pool/heap.h"
#include "pool/options.h"
#include "pool/ptr.h"

namespace perdure {

struct PoolRoot {
  std::string name;      ///< at most 31 bytes
  std::uint64_t offset;  ///< a published block of the heap
  std::uint64_t bytes;
};

class Pool : public PoolLimits {
 public:
  /// The file of a part: a number in place of "{part}" in `path`, for files on several mounts; else
  /// `path` itself, then `path`.1 and so on.
  [[nodiscard]] static std::string part_path(const std::string& path, unsigned part);

  /// Creates the files (refusing existing ones unless `overwrite`) and maps them. Nothing is left
  /// behind on error. Errors: exists, busy, out_of_space, usage, io; unsupported: parts of `pmdk`
  /// or `memkind`.
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create(const PoolOptions& options);

  /// Maps an existing pool; the heap kind comes from the file (`options.heap` is ignored).
  /// Errors: not_found, busy, foreign (not of `options.parts` parts, or parts of several pools),
  /// truncated, corrupt, newer, io.
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open(const PoolOptions& options);

  /// Makes a slab pool in memory of the caller's (page-aligned, whole pages, at least 128 KiB),
  /// which must outlive it; `open_in` opens what is there, clean or cut off. For whoever keeps
  /// images of pools: nothing is mapped, locked or made durable beyond flushes. Several parts fill
  /// the memory where it divides into powers of two. Errors: as of create and open.
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create_in(std::span<std::byte> memory,
                                                               unsigned parts = 1);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open_in(std::span<std::byte> memory);

  /// Closes without the clean flag if `close` was not called: the next open recovers.
  virtual ~Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Flushes, sets the clean-shutdown flag, unmaps. The pool must not be used afterwards.
  virtual Result<void> close() = 0;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  /// Of all parts.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return parts_ * part_bytes_; }
  /// From the first byte to the last: more than `bytes` where parts are not adjacent.
  [[nodiscard]] std::uint64_t extent_bytes() const noexcept {
    return start_of_part(parts_ - 1) + part_bytes_;
  }
  [[nodiscard]] unsigned parts() const noexcept { return static_cast<unsigned>(parts_); }
  [[nodiscard]] std::span<std::byte> part(unsigned number) const noexcept {
    return {base_ + start_of_part(number), part_bytes_};
  }
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
  /// True when [offset, offset + bytes) lies inside one part and offset is 8-byte aligned:
  /// recovery checks every offset it follows, because media may be corrupt.
  [[nodiscard]] bool contains(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const std::uint64_t inside = offset - start_of_part(part_of(offset));
    return part_of(offset) < parts_ && inside >= 64 && inside % 8 == 0 && bytes <= part_bytes_ &&
           inside <= part_bytes_ - bytes;
  }

  /// Publishes `block` under `name`: durable and atomic. Errors: exists, out_of_space (table full),
  /// usage (name too long or empty).
  virtual Result<void> add_root(std::string_view name, Reservation& block) = 0;
  [[nodiscard]] virtual std::vector<PoolRoot> roots() const = 0;

  /// Called by the owner of a root once it has marked all it can reach (the root block itself is
  /// marked by the pool). When the last root of a reopened pool has reported, the heap sweeps what
  /// is left over and `ready` turns true. A root created in this session needs no call.
  virtual Result<void> root_recovered(std::string_view name) = 0;
  /// The owner of the pool's only root asks to be served at once: instead of `root_recovered`, it
  /// marks what it reaches while the pool is in use, and calls `finish_recovery` then. `high_water`
  /// is what the heap was told to keep (heap.h). False: there are other roots, or the heap cannot:
  /// the owner recovers first, as ever. Errors: corrupt.
  [[nodiscard]] virtual Result<bool> recover_later(std::string_view /*name*/,
                                                   std::atomic<std::uint64_t>& /*high_water*/) {
    return false;
  }
  /// All is marked, and no thread reads anymore what is not: the heap sweeps. Beside other threads.
  virtual Result<void> finish_recovery() { return {}; }
  /// True between `recover_later` and the end of `finish_recovery`.
  [[nodiscard]] bool is_recovering() const noexcept {
    return recovering_.load(std::memory_order_acquire);
  }
  /// The owner of a root says before `close` that all blocks it has are reachable and how many
  /// records it holds; it changes nothing afterwards. When all owners have said so, a clean close
  /// keeps their numbers, and the next opening compares them with what recovery finds.
  virtual void note_settled(std::string_view /*name*/, std::uint64_t /*records*/) {}
  /// The owner of a root says how many records its recovery has found. Errors: corrupt, when all
  /// have said so and the sum is not that of the last clean close.
  virtual Result<void> check_records(std::string_view /*name*/, std::uint64_t /*records*/) {
    return {};
  }
  /// True on a pool that `check_records` would compare with something.
  [[nodiscard]] virtual bool expects_records() const noexcept { return false; }
  /// Damage was found: the pool will not be closed as clean. Thread-safe.
  void note_damage() noexcept { damaged_.store(true, std::memory_order_release); }

  /// False on a reopened pool until every root has been recovered, or is served at once; allocation
  /// waits for it.
  [[nodiscard]] bool ready() const noexcept { return ready_; }
  /// Blocks that the last recovery found allocated but unreachable, and freed.
  [[nodiscard]] std::uint64_t leaked_blocks_freed() const noexcept { return leaked_blocks_freed_; }

 protected:
  Pool() = default;
  void set_size(std::uint64_t part_bytes, unsigned parts = 1) noexcept {
    part_bytes_ = part_bytes;
    parts_ = parts;
    part_shift_ = parts == 1 ? no_shift : static_cast<unsigned>(std::bit_width(part_bytes - 1));
  }
  [[nodiscard]] std::uint64_t part_bytes() const noexcept { return part_bytes_; }
  [[nodiscard]] unsigned part_shift() const noexcept { return part_shift_; }
  [[nodiscard]] std::uint64_t part_of(std::uint64_t offset) const noexcept {
    return offset >> part_shift_;
  }
  [[nodiscard]] std::uint64_t start_of_part(std::uint64_t number) const noexcept {
    return number << part_shift_;
  }

  std::byte* base_ = nullptr;
  std::unique_ptr<Heap> heap_;
  HeapKind heap_kind_ = HeapKind::slab;
  Medium medium_ = Medium::anonymous;
  std::string path_;
  bool was_clean_ = true;
  bool ready_ = false;
  std::uint64_t leaked_blocks_freed_ = 0;
  std::atomic<bool> recovering_{false};
  std::atomic<bool> damaged_{false};

 private:
  static constexpr unsigned no_shift = 63;

  std::uint64_t part_bytes_ = 0;
  std::uint64_t parts_ = 1;
  unsigned part_shift_ = no_shift;
};

}  // namespace perdure
