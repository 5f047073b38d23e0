// Where a run keeps its records: size, creation or opening, and removal of what a failed run made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/limits.h"
#include "core/result.h"
#include "driver/config.h"
#include "pool/occupant.h"
#include "pool/pool.h"

namespace perdure::driver {

/// The NUMA nodes of the run's machine that parts of the pool are dealt to; empty without the
/// option node_pools.
[[nodiscard]] std::vector<unsigned> pool_nodes(const BenchConfig& config);

/// A generous size for everything the run may put into the pool: records at half-full leaves, the
/// inserts of all repetitions, old versions awaiting their grace period.
[[nodiscard]] std::uint64_t estimated_pool_bytes(const BenchConfig& config) noexcept;

/// Records an instance may come to hold: those loaded, and the inserts of all repetitions.
[[nodiscard]] std::uint64_t expected_records(const BenchConfig& config) noexcept;

/// What can still be written to a file at `path` (on tmpfs: and held in memory), counting what
/// --force would give back.
[[nodiscard]] Room room_for(const std::string& path);

/// `config.pool_bytes`, or the estimate, which a native run cuts to the room that is left.
/// Errors: out_of_space, when not even a lean pool fits in `room`.
[[nodiscard]] Result<std::uint64_t> choose_pool_bytes(const BenchConfig& config, const Room& room);

/// What the pool of a run may take: of memory, or of the file system that it goes to.
[[nodiscard]] Room room_of(const BenchConfig& config);

/// Checks that `memory` holds the records of a run that keeps them there and nowhere else.
/// Errors: out_of_space.
[[nodiscard]] Result<void> check_memory(const BenchConfig& config, const Room& memory);

/// The pool or directory of one run. What it created is removed again unless `keep` was called: a
/// half-loaded pool would look like a loaded one. It removes nothing else: it knows a pool's files
/// by their inodes, a directory's by its mark and their names (index/reference/engine_directory.h).
class PoolSite {
 public:
  /// Creates or opens what the index needs (nothing for in_memory, harness). An existing file is
  /// never overwritten without `force`, and one that perdure did not make not even then; nothing is
  /// created when anything is wrong.
  /// Errors: exists, not_found, and those of Pool::create and Pool::open.
  [[nodiscard]] static Result<std::unique_ptr<PoolSite>> prepare(const BenchConfig& config);

  ~PoolSite();
  PoolSite(const PoolSite&) = delete;
  PoolSite& operator=(const PoolSite&) = delete;

  [[nodiscard]] Pool* pool() const noexcept { return pool_.get(); }
  /// 0 without a pool; the room given to an on-disk index.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// "tmpfs", "page_cache", ...; "disk" for a directory not on tmpfs; "none".
  [[nodiscard]] std::string medium() const;
  /// Bytes the files of an on-disk index take.
  [[nodiscard]] std::uint64_t directory_bytes() const;

  /// Keeps what was created when this is destroyed.
  void keep() noexcept;
  /// Closes the pool cleanly. The index must be gone.
  Result<void> close();

 private:
  PoolSite() = default;
  void take_back() const;
  [[nodiscard]] static Result<std::unique_ptr<PoolSite>> use_folder(const BenchConfig& config);

  std::unique_ptr<Pool> pool_;
  std::vector<MadeFile> made_;      ///< the files of a pool that this run created
  std::vector<std::string> paths_;  ///< the directory, or the files of the pool's parts
  std::uint64_t bytes_ = 0;
  bool directory_ = false;
  bool foreign_ = false;    ///< a plug-in's, which may make anything at its path
  bool was_there_ = false;  ///< the directory, empty
  bool created_ = false;
  bool kept_ = false;
};

}  // namespace perdure::driver
