#include "pool/file.h"

#include <fcntl.h>
#include <libpmem2.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace perdure {

Error file_error(const std::string& path, const char* what) {
  return {ErrorCode::io, std::string(what) + ": " + std::strerror(errno), path,
          "check the path and its permissions, or name another PoolOptions::path"};
}

Error no_room_error(const std::string& path, std::uint64_t bytes, const Room& room) {
  constexpr std::uint64_t mib = 1 << 20;
  return {ErrorCode::out_of_space,
          "the pool needs " + std::to_string(bytes / mib) + " MiB" +
              (room.bytes == Room::unknown ? ", which the file system does not have"
                                           : ", and " + std::to_string(room.bytes / mib) +
                                                 " MiB are free within " + room.bound),
          path,
          "make room there, ask for less (PoolOptions::bytes), or name another PoolOptions::path"};
}

void announce_name_change() {
  if (const auto hook = before_name_change.load(std::memory_order_relaxed)) hook();
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Room room_in(const std::string& folder) {
  struct statfs system {};
  if (statfs(folder.c_str(), &system) != 0) return {};
  Room room;
  if (system.f_type != TMPFS_MAGIC || system.f_blocks != 0)  // 0: a tmpfs without a size
    room = {
        static_cast<std::uint64_t>(system.f_bavail) * static_cast<std::uint64_t>(system.f_bsize),
        "the file system of " + folder};
  if (system.f_type != TMPFS_MAGIC || memory_was_looked_at.load(std::memory_order_relaxed))
    return room;
  const Room memory = memory_room();
  return memory.bytes < room.bytes ? memory : room;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}
File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Result<File> open_file(const std::string& path) {
  File file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR)
      return Error{ErrorCode::not_found, "no such pool", path,
                   "check the path; Pool::create makes a pool"};
    if (errno == EISDIR || errno == ENXIO)
      return Error{ErrorCode::foreign, "not a file or device", path, "name a pool file"};
    return file_error(path, "cannot open");
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return file_error(path, "cannot inspect");
  if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode))
    return Error{ErrorCode::foreign, "not a file or device", path, "name a pool file"};
  return file;
}

bool until_unlocked(const std::function<bool()>& attempt) {
  constexpr unsigned most_tries = 50;
  constexpr useconds_t between_us = 5000;
  for (unsigned tries = 1; !attempt(); ++tries) {
    const int reason = errno;
    if ((reason != EWOULDBLOCK && reason != EINTR) || tries == most_tries) return false;
    usleep(between_us);
  }
  return true;
}

Result<void> lock_file(const File& file, const std::string& path) {
  if (until_unlocked([&] { return flock(file.get(), LOCK_EX | LOCK_NB) == 0; })) return {};
  if (errno != EWOULDBLOCK && errno != EINTR) return file_error(path, "cannot lock");
  return Error{ErrorCode::busy, "another process uses the pool", path,
               "wait until it ends, or name another pool"};
}

bool is_device(const File& file) {
  struct stat status {};
  return fstat(file.get(), &status) == 0 && S_ISCHR(status.st_mode);
}

Result<std::uint64_t> size_of(const File& file, const std::string& path) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return file_error(path, "cannot inspect");
  if (!S_ISCHR(status.st_mode)) return static_cast<std::uint64_t>(status.st_size);
  pmem2_source* source = nullptr;
  std::size_t bytes = 0;
  const bool known =
      pmem2_source_from_fd(&source, file.get()) == 0 && pmem2_source_size(source, &bytes) == 0;
  if (source != nullptr) pmem2_source_delete(&source);
  if (!known)
    return Error{ErrorCode::foreign, "not a device of persistent memory", path,
                 "name a devdax device or a file"};
  return std::uint64_t{bytes};
}

Result<void> allocate_blocks(const File& file, std::uint64_t bytes, const std::string& path) {
  const int failure = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (failure == 0) return {};
  if (failure == ENOSPC || failure == EDQUOT || failure == EFBIG || failure == ENOMEM)
    return no_room_error(path, bytes, room_in(folder_of(path)));
  errno = failure;
  return file_error(path, "cannot allocate space");
}

bool take_name(const std::string& path) {
  announce_name_change();
  return unlink(path.c_str()) == 0;
}

}  // namespace perdure
