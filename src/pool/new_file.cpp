#include "pool/new_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "pool/mapping.h"
#include "pool/occupant.h"

namespace perdure {
namespace {

constexpr mode_t file_mode = 0644;

}  // namespace

// Judged again under the lock: until now another process may have been making it.
Result<void> NewFile::hold_replaced(const std::string& path, std::uint64_t& reclaimable) {
  std::error_code unresolved;
  path_ = std::filesystem::canonical(path, unresolved);  // what a link points to
  if (unresolved) return file_error(path, "cannot resolve");
  Result<File> old = open_file(path_);
  if (!old) return old.error();
  if (const Result<void> locked = lock_file(*old, path); !locked) return locked.error();
  if (const Occupant there = occupant_of(*old);
      there != Occupant::pool && there != Occupant::empty_file)
    return occupied(path, there, true);
  struct stat status {};
  if (fstat(old->get(), &status) != 0) return file_error(path, "cannot inspect");
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
    return no_room_error(path, bytes,
                         {limit.rlim_cur, "ulimit -f"});  // growing it would raise SIGXFSZ
  const Room room = in_memory ? Room() : room_in(folder_of(made.path_));
  made.needs_room_ = room.bytes < bytes;
  if (room.bytes < bytes && !(made.replaced_ && room.bytes + reclaimable >= bytes))
    return no_room_error(path, bytes, room);
  if (const Result<void> opened = in_memory ? made.open_in_memory() : made.open_unnamed(); !opened)
    return opened.error();
  if (ftruncate(made.file_.get(), static_cast<off_t>(bytes)) != 0)
    return file_error(path, "cannot size the file");
  return made;
}

Result<void> NewFile::open_in_memory() {
  file_ = File(memfd_create("perdure-pool", MFD_CLOEXEC));
  return file_ ? Result<void>() : file_error(path_, "cannot make a file of memory");
}

Result<void> NewFile::open_unnamed() {
  file_ = File(open(folder_of(path_).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, file_mode));
  if (!file_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    temporary_path_ = path_ + ".creating." + std::to_string(getpid());
    announce_name_change();
    file_ = File(open(temporary_path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, file_mode));
    if (!file_) temporary_path_.clear();
  }
  return file_ ? Result<void>() : file_error(path_, "cannot create");
}

Result<void> NewFile::withdraw_replaced() {
  if (!replaced_) return {};
  if (!take_name(path_)) return file_error(path_, "cannot replace");
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
    if (errno != EEXIST) return file_error(path_, "cannot create");
    const Result<Occupant> there = occupant_of(path_);
    return occupied(path_, there.ok() ? *there : Occupant::other_file, false);
  }
  // A hard link never replaces a file, a rename does: so it takes a name on the way.
  const std::string waypoint = path_ + ".replacing." + std::to_string(getpid());
  if (!link_to(waypoint)) return file_error(path_, "cannot replace");
  announce_name_change();
  if (rename(waypoint.c_str(), path_.c_str()) != 0) {
    const Error error = file_error(path_, "cannot replace");
    static_cast<void>(take_name(waypoint));
    return error;
  }
  return std::move(file_);
}

}  // namespace perdure
