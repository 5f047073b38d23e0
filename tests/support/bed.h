// Bed: an index with its pool or folder, as a test needs it: create, reopen, throw away.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/target.h"
#include "support/temp_folder.h"

namespace perdure::testing {

[[nodiscard]] inline Error wrong(std::string what) {
  return {ErrorCode::failed, std::move(what), "", ""};
}

struct BedOptions {
  std::vector<std::string> options;  ///< name=value, as on the command line
  std::uint64_t pool_bytes = 64ULL << 20;
  unsigned threads = 2;  ///< for recovery and bulk load
};

enum class Reopen {
  clean,  ///< quiesce and close first
  crash,  ///< drop everything as it stands: the next open finds no clean-shutdown flag
};

/// What reopening found.
struct Reopened {
  std::uint64_t leaked_blocks_freed = 0;
  HeapUsage usage;
};

template <class Keys>
class Bed {
 public:
  /// A new pool or folder with an empty index.
  [[nodiscard]] static Result<std::unique_ptr<Bed>> create(const Target& target,
                                                           const BedOptions& options);
  /// Opens what an earlier process left in `path` (a pool file or an index's folder), which stays
  /// when the bed is destroyed.
  [[nodiscard]] static Result<std::unique_ptr<Bed>> open(const Target& target,
                                                         const BedOptions& options,
                                                         const std::string& path);
  ~Bed() { drop(); }
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  [[nodiscard]] OrderedIndex<Keys>& index() noexcept { return *index_; }
  [[nodiscard]] Pool* pool() noexcept { return pool_.get(); }
  [[nodiscard]] const Target& target() const noexcept { return target_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Closes in the given way, maps at another address, recovers.
  [[nodiscard]] Result<Reopened> reopen(Reopen how);
  /// Quiesces and closes; the files stay until the bed is destroyed.
  [[nodiscard]] Result<void> close();
  /// Forgets index and pool without closing: what a crash leaves, minus the caches.
  void drop();

 private:
  Bed() = default;
  [[nodiscard]] Result<void> recover(std::uint64_t map_address);
  [[nodiscard]] Result<IndexPlace> place() const;
  /// The options of the test and of the target.
  [[nodiscard]] Result<IndexOptions> options() const;

  Target target_;
  BedOptions options_;
  std::unique_ptr<TempFolder> folder_;  ///< null when the files are not ours
  std::string path_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<OrderedIndex<Keys>> index_;  ///< destroyed before its pool
};

extern template class Bed<IntegerKeys>;
extern template class Bed<ByteKeys>;
extern template class Bed<SlotKeys>;

/// An address where `bytes` can be mapped now, other than where anything is.
[[nodiscard]] std::uint64_t free_address(std::uint64_t bytes);

}  // namespace perdure::testing
