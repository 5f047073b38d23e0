// NodeArena: volatile memory for inner nodes and separators: DRAM, from 2 MiB chunks that huge
// pages can back; or of a pool, as far memory, from reservations that are never published, so that
// nothing of them outlives a crash.
//
// A descent touches one line in each of a few nodes, so with small pages it would pay a TLB miss
// for each. Chunks are unmapped only with the arena: a stale address stays readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pm/version_lock.h"
#include "pool/pool.h"

namespace perdure {

/// Chunks that arenas have given back, for the next one: what the system gives has to be cleared,
/// and is in no cache. No more than the largest of those arenas had. Outlives its arenas, all of
/// which have huge pages, or none. Thread-safe.
class ChunkReserve {
 public:
  explicit ChunkReserve(bool huge_pages) noexcept : huge_pages_(huge_pages) {}
  ~ChunkReserve();
  ChunkReserve(const ChunkReserve&) = delete;
  ChunkReserve& operator=(const ChunkReserve&) = delete;

  [[nodiscard]] std::uint64_t dram_bytes() const noexcept;

 private:
  friend class NodeArena;
  /// Null: there is none.
  [[nodiscard]] std::byte* take() noexcept;
  void keep(std::vector<std::byte*>& chunks) noexcept;

  mutable pm::VersionLock lock_;
  const bool huge_pages_;
  std::vector<std::byte*> chunks_;
};

class NodeArena {
 public:
  static constexpr std::size_t chunk_bytes = std::size_t{2} << 20;

  /// With a pool: its memory; where it has no room, and before it is ready, DRAM.
  explicit NodeArena(bool huge_pages, Pool* pool = nullptr) noexcept
      : huge_pages_(huge_pages), pool_(pool) {}
  explicit NodeArena(ChunkReserve& reserve) noexcept
      : huge_pages_(reserve.huge_pages_), reserve_(&reserve) {}
  ~NodeArena();
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  /// `bytes` (1 .. chunk_bytes) of undefined content, aligned to 256 where the size is a multiple
  /// of 256, else to 64 from 64 bytes on, else to 16. Thread-safe. No memory: std::bad_alloc.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Takes back what `allocate(bytes)` gave. Thread-safe.
  void free(void* block, std::size_t bytes) noexcept;

  /// Bytes of DRAM taken from the system.
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept;

  /// For Epochs::retire, with the arena as the context.
  static void destroy(void* arena, std::uint64_t block, std::size_t bytes) {
    static_cast<NodeArena*>(arena)->free(reinterpret_cast<void*>(block), bytes);
  }

 private:
  struct FreeBlock {
    FreeBlock* next;
  };
  static constexpr std::size_t granule_bytes = 16;

  static constexpr std::size_t pool_chunk_bytes = std::size_t{64} << 10;

  [[nodiscard]] void* carve(std::size_t bytes, std::size_t alignment);
  [[nodiscard]] bool take_chunk_of_pool();
  void take_chunk();

  mutable pm::VersionLock lock_;
  const bool huge_pages_;
  Pool* const pool_ = nullptr;
  ChunkReserve* const reserve_ = nullptr;
  std::vector<std::byte*> chunks_;  ///< DRAM
  std::vector<Reservation> pool_chunks_;
  std::span<std::byte> rest_;  ///< of the chunk taken last
  bool rest_in_pool_ = false;
  std::vector<FreeBlock*> free_;  ///< by granules
};

}  // namespace perdure
