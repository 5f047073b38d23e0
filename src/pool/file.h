// Files that pools live in: opened under an exclusive lock, created so that nothing half-written is
// ever found at the path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/limits.h"
#include "core/result.h"

namespace perdure {

/// A file descriptor that closes itself.
class File {
 public:
  File() = default;
  explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] explicit operator bool() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// Opens an existing file or device for reading and writing; never blocks and changes nothing.
/// Errors: not_found, foreign (a directory, pipe or socket), io.
[[nodiscard]] Result<File> open_file(const std::string& path);

/// Calls `attempt` until it is true, or fails for another reason than somebody's lock (errno), for
/// a quarter of a second at most: a process that was killed a moment ago, or the child in which it
/// tried the pool, may not be gone yet.
[[nodiscard]] bool until_unlocked(const std::function<bool()>& attempt);

/// Takes the lock that stands for using the pool (P3); the kernel drops it when the file is closed.
/// The same lock that libpmemobj takes. Errors: busy.
[[nodiscard]] Result<void> lock_file(const File& file, const std::string& path);

/// Bytes of a file, or of a device.
[[nodiscard]] Result<std::uint64_t> size_of(const File& file, const std::string& path);
[[nodiscard]] bool is_device(const File& file);

/// What a new file in `folder` may take: on tmpfs no more than memory, whose limits would otherwise
/// end in the out-of-memory killer.
[[nodiscard]] Room room_in(const std::string& folder);

/// Set by a simulation, which looks at this machine's memory before it starts: later, what looking
/// allocates would move what the simulated threads allocate.
inline std::atomic<bool> memory_was_looked_at{false};

/// Allocates every block of the file's first `bytes`, so that no later store can meet a full file
/// system. Errors: out_of_space, io.
[[nodiscard]] Result<void> allocate_blocks(const File& file, std::uint64_t bytes,
                                           const std::string& path);

/// The path of a pool in memory: its file never has a name, gets its pages as they are used, and is
/// gone with the pool.
inline constexpr std::string_view memory_path = "(memory)";

/// Test hook: called before every step after which a killed process leaves other names, or other
/// marks of who owns them, than before.
inline std::atomic<void (*)()> before_name_change{nullptr};

/// Takes a name away. False: errno says why.
[[nodiscard]] bool take_name(const std::string& path);

/// A file on its way to `path`: it has no name there until `publish`, and leaves nothing behind if
/// it is destroyed, or the process killed, before. What a process that was killed in `publish`, or
/// on a file system without unnamed files, left beside the path goes at the next creation
/// (pool/leftovers.h).
class NewFile {
 public:
  /// For the `part`th file of a pool. `overwrite` replaces only what `check_vacancy` allows
  /// (pool/occupant.h). Errors: exists, foreign (not a file), busy (another process uses the file
  /// to be replaced), out_of_space, usage, io.
  [[nodiscard]] static Result<NewFile> create(const std::string& path, std::uint64_t bytes,
                                              bool overwrite, unsigned part = 0);
  ~NewFile();
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;

  [[nodiscard]] const File& file() const noexcept { return file_; }
  /// The file to be replaced; none where there is none, or not any more.
  [[nodiscard]] const File& replaced() const noexcept { return replaced_; }
  /// True when the file system has no room for both the new file and the one to be replaced, which
  /// must then be withdrawn before `fill`.
  [[nodiscard]] bool needs_room() const noexcept { return needs_room_ && replaced_; }
  /// Takes the name of the file to be replaced away. Errors: io.
  [[nodiscard]] Result<void> withdraw_replaced();
  /// Allocates every block of the file; on tmpfs from huge pages, if `huge_pages`.
  /// Errors: out_of_space, io.
  [[nodiscard]] Result<void> fill(bool huge_pages) const;
  /// A path by which the file can be opened again before it has its name.
  [[nodiscard]] std::string interim_path() const;
  /// Gives the file its name, and releases it to the caller. Errors: exists, io.
  [[nodiscard]] Result<File> publish();

 private:
  NewFile() = default;
  [[nodiscard]] Result<void> open_in_memory();
  [[nodiscard]] Result<void> open_unnamed();
  [[nodiscard]] Result<void> hold_replaced(const std::string& path, std::uint64_t& reclaimable);

  std::string path_;
  std::uint64_t bytes_ = 0;
  std::string temporary_path_;  ///< empty: the file has no name at all (O_TMPFILE, memory)
  bool needs_room_ = false;
  File file_;
  File replaced_;  ///< locked
};

}  // namespace perdure
