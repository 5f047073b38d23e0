// Files that pools live in: opening, locking, sizes, and the errors that they end in.
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
/// Calls the hook where there is one.
void announce_name_change();

/// Takes a name away. False: errno says why.
[[nodiscard]] bool take_name(const std::string& path);

/// The folder that holds `path`.
[[nodiscard]] std::string folder_of(const std::string& path);

/// The error of a system call that failed with errno: io.
[[nodiscard]] Error file_error(const std::string& path, const char* what);
/// The error where a pool of `bytes` does not fit into `room`: out_of_space.
[[nodiscard]] Error no_room_error(const std::string& path, std::uint64_t bytes, const Room& room);

}  // namespace perdure
