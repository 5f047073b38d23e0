#include "pool/file.h"

#include <fcntl.h>
#include <libpmem2.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "pool/mapping.h"
#include "pool/occupant.h"

namespace perdure {
namespace {

constexpr mode_t file_mode = 0644;

Error io_error(const std::string& path, const char* what) {
  return {ErrorCode::io, std::string(what) + ": " + std::strerror(errno), path,
          "check the path and its permissions, or name another PoolOptions::path"};
}

Error no_room(const std::string& path, std::uint64_t bytes, const Room& room) {
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

}  // namespace

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
    return io_error(path, "cannot open");
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return io_error(path, "cannot inspect");
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
  if (errno != EWOULDBLOCK && errno != EINTR) return io_error(path, "cannot lock");
  return Error{ErrorCode::busy, "another process uses the pool", path,
               "wait until it ends, or name another pool"};
}

bool is_device(const File& file) {
  struct stat status {};
  return fstat(file.get(), &status) == 0 && S_ISCHR(status.st_mode);
}

Result<std::uint64_t> size_of(const File& file, const std::string& path) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return io_error(path, "cannot inspect");
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
    return no_room(path, bytes, room_in(folder_of(path)));
  errno = failure;
  return io_error(path, "cannot allocate space");
}

bool take_name(const std::string& path) {
  announce_name_change();
  return unlink(path.c_str()) == 0;
}

// Judged again under the lock: until now another process may have been making it.
Result<void> NewFile::hold_replaced(const std::string& path, std::uint64_t& reclaimable) {
  std::error_code unresolved;
  path_ = std::filesystem::canonical(path, unresolved);  // what a link points to
  if (unresolved) return io_error(path, "cannot resolve");
  Result<File> old = open_file(path_);
  if (!old) return old.error();
  if (const Result<void> locked = lock_file(*old, path); !locked) return locked.error();
  if (const Occupant there = occupant_of(*old);
      there != Occupant::pool && there != Occupant::empty_file)
    return occupied(path, there, true);
  struct stat status {};
  if (fstat(old->get(), &status) != 0) return io_error(path, "cannot inspect");
  reclaimable = static_cast<std::uint64_t>(status.st_blocks) * 512;
  replaced_ = std::move(*old);
  return {};
}

Result<NewFile> NewFile::create(const std::string& path, std::uint64_t bytes, bool overwrite,
                                unsigned part) {
  NewFile made;
  made.path_ = path;
  made.bytes_ = bytes;
  std::uint64_t reclaimable = 0;
  const bool in_memory = path == memory_path;
  if (!in_memory) {
    // Before all else: replacing a device or a folder by a file would harm the whole system.
    if (const Result<void> vacant = check_vacancy(path, part, overwrite); !vacant)
      return vacant.error();
    struct stat status {};
    if (stat(path.c_str(), &status) == 0) {
      if (!S_ISREG(status.st_mode)) return occupied(path, Occupant::other_device, overwrite);
      if (const Result<void> held = made.hold_replaced(path, reclaimable); !held)
        return held.error();
    }
  }
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur)
    return no_room(path, bytes, {limit.rlim_cur, "ulimit -f"});  // growing it would raise SIGXFSZ
  const Room room = in_memory ? Room() : room_in(folder_of(made.path_));
  made.needs_room_ = room.bytes < bytes;
  if (room.bytes < bytes && !(made.replaced_ && room.bytes + reclaimable >= bytes))
    return no_room(path, bytes, room);
  if (const Result<void> opened = in_memory ? made.open_in_memory() : made.open_unnamed(); !opened)
    return opened.error();
  if (ftruncate(made.file_.get(), static_cast<off_t>(bytes)) != 0)
    return io_error(path, "cannot size the file");
  return made;
}

Result<void> NewFile::open_in_memory() {
  file_ = File(memfd_create("perdure-pool", MFD_CLOEXEC));
  return file_ ? Result<void>() : io_error(path_, "cannot make a file of memory");
}

Result<void> NewFile::open_unnamed() {
  file_ = File(open(folder_of(path_).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, file_mode));
  if (!file_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    temporary_path_ = path_ + ".creating." + std::to_string(getpid());
    announce_name_change();
    file_ = File(open(temporary_path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, file_mode));
    if (!file_) temporary_path_.clear();
  }
  return file_ ? Result<void>() : io_error(path_, "cannot create");
}

Result<void> NewFile::withdraw_replaced() {
  if (!replaced_) return {};
  if (!take_name(path_)) return io_error(path_, "cannot replace");
  replaced_ = File();
  return {};
}

NewFile::~NewFile() {
  if (!temporary_path_.empty()) static_cast<void>(take_name(temporary_path_));
}

NewFile::NewFile(NewFile&& other) noexcept { *this = std::move(other); }

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(temporary_path_, other.temporary_path_);
  std::swap(needs_room_, other.needs_room_);
  std::swap(file_, other.file_);
  std::swap(replaced_, other.replaced_);
  return *this;
}

// Huge pages come first: collapsing an empty file costs a quarter of allocating small pages and
// then collapsing them. One present page in each is what it takes; allocated by fallocate, not by a
// fault, because a fault on a full file system kills the process.
Result<void> NewFile::fill(bool huge_pages) const {
  if (path_ == memory_path) return {};
  if (huge_pages) {
    constexpr off_t page_bytes = 4096;
    for (std::uint64_t at = 0; at < bytes_; at += huge_page_size)
      if (posix_fallocate(file_.get(), static_cast<off_t>(at), page_bytes) != 0)
        return allocate_blocks(file_, bytes_, path_);
    const Result<Mapping> window = Mapping::of_file(file_.get(), bytes_, 0, path_);
    if (!window) return window.error();
    request_huge_pages(window->base(), bytes_, Medium::tmpfs);
  }
  return allocate_blocks(file_, bytes_, path_);
}

std::string NewFile::interim_path() const {
  return temporary_path_.empty() ? "/proc/self/fd/" + std::to_string(file_.get()) : temporary_path_;
}

Result<File> NewFile::publish() {
  if (path_ == memory_path) return std::move(file_);
  const auto link_to = [&](const std::string& name) {
    announce_name_change();
    return linkat(AT_FDCWD, interim_path().c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (!replaced_) {
    if (link_to(path_)) return std::move(file_);
    if (errno != EEXIST) return io_error(path_, "cannot create");
    const Result<Occupant> there = occupant_of(path_);
    return occupied(path_, there.ok() ? *there : Occupant::other_file, false);
  }
  // A hard link never replaces a file, a rename does: so it takes a name on the way.
  const std::string waypoint = path_ + ".replacing." + std::to_string(getpid());
  if (!link_to(waypoint)) return io_error(path_, "cannot replace");
  announce_name_change();
  if (rename(waypoint.c_str(), path_.c_str()) != 0) {
    const Error error = io_error(path_, "cannot replace");
    static_cast<void>(take_name(waypoint));
    return error;
  }
  return std::move(file_);
}

}  // namespace perdure
