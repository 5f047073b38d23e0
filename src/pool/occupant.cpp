#include "pool/occupant.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "pool/header.h"
#include "pool/pmdk_file.h"

namespace perdure {
namespace {

bool read_page(const File& file, std::uint64_t offset, PoolHeader& page) {
  return pread(file.get(), static_cast<void*>(&page), sizeof page, static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(sizeof page);
}

bool has_our_magic(const PoolHeader& page) { return page.magic == pool_magic; }

// A header whose magic alone is damaged: the checksum covers it.
bool has_our_checksum(const PoolHeader& page) {
  PoolHeader mended;
  std::memcpy(static_cast<void*>(&mended), &page, sizeof mended);
  mended.magic = pool_magic;
  return mended.checksum == mended.compute_checksum();
}

// The number that a sound header of our own gives its file; a pool of libpmemobj has one part.
std::optional<unsigned> part_number(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return std::nullopt;
  PoolHeader page;
  if (!read_page(file, 0, page) || !has_our_magic(page))
    return is_our_pmdk_file(file) ? std::optional<unsigned>(0) : std::nullopt;
  return has_our_checksum(page) ? std::optional<unsigned>(page.part) : std::nullopt;
}

Error cannot_inspect(const std::string& path) {
  return {ErrorCode::io, std::string("cannot inspect: ") + std::strerror(errno), path,
          "check the path and its permissions"};
}

}  // namespace

Occupant occupant_of(const File& file) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return Occupant::other_file;
  if (status.st_size == 0) return Occupant::empty_file;
  PoolHeader page;
  std::memset(static_cast<void*>(&page), 0, sizeof page);
  const ssize_t got = pread(file.get(), static_cast<void*>(&page), sizeof page, 0);
  if (got >= static_cast<ssize_t>(pool_magic.size()) && has_our_magic(page)) return Occupant::pool;
  if (got == static_cast<ssize_t>(sizeof page) && has_our_checksum(page)) return Occupant::pool;
  return is_our_pmdk_file(file) ? Occupant::pool : Occupant::other_file;
}

Result<Occupant> occupant_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    const int reason = errno;
    if (reason == ENOENT && lstat(path.c_str(), &status) == 0) return Occupant::broken_link;
    errno = reason;
    if (reason == ENOENT || reason == ENOTDIR) return Occupant::nothing;
    return cannot_inspect(path);
  }
  if (S_ISDIR(status.st_mode)) return Occupant::folder;
  if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) return Occupant::channel;
  if (S_ISBLK(status.st_mode)) return Occupant::other_device;
  if (S_ISCHR(status.st_mode)) {
    const Result<File> device = open_file(path);
    return device.ok() && size_of(*device, path).ok() ? Occupant::pm_device
                                                      : Occupant::other_device;
  }
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return cannot_inspect(path);
  return occupant_of(file);
}

Error occupied(const std::string& path, Occupant occupant, bool overwrite) {
  const auto in_folder = [&] { return path + (path.ends_with('/') ? "" : "/") + "p.pool"; };
  switch (occupant) {
    case Occupant::pool:
      return {ErrorCode::exists, "exists already", path,
              "open it with Pool::open, replace it with PoolOptions::overwrite, or name another"};
    case Occupant::empty_file:
      return {ErrorCode::exists, "exists already, and is empty", path,
              "replace it with PoolOptions::overwrite, or name another"};
    case Occupant::other_file:
      return {ErrorCode::exists,
              std::string("is a file that perdure did not make") +
                  (overwrite ? ", so PoolOptions::overwrite does not replace it" : ""),
              path, "name another path, or move the file away"};
    case Occupant::folder:
      return {ErrorCode::foreign, "is a directory", path, "name a file, such as " + in_folder()};
    case Occupant::other_device:
      return {ErrorCode::foreign, "is a device, but not of persistent memory", path,
              "name a file or a devdax device"};
    case Occupant::channel:
      return {ErrorCode::foreign, "is a pipe or a socket", path, "name a file or a devdax device"};
    case Occupant::broken_link:
      return {ErrorCode::foreign, "is a link to something that does not exist", path,
              "remove the link, or name another path"};
    case Occupant::pm_device:
      return {ErrorCode::exists, "is a device that holds a pool", path,
              "open it with Pool::open, or replace it with PoolOptions::overwrite"};
    case Occupant::nothing:
      break;
  }
  return {ErrorCode::io, "cannot be created", path, "check the path and its permissions"};
}

Result<void> check_vacancy(const std::string& path, unsigned part, bool overwrite) {
  if (path.empty())
    return Error{ErrorCode::usage, "no path for the pool", "PoolOptions::path", "name a file"};
  const Result<Occupant> there = occupant_of(path);
  if (!there) return there.error();
  if (*there == Occupant::nothing && path.ends_with('/'))
    return Error{ErrorCode::foreign, "names a directory", path, "name a file in one that exists"};
  if (*there == Occupant::nothing || *there == Occupant::pm_device) return {};
  const bool replaceable = *there == Occupant::pool || *there == Occupant::empty_file;
  if (!replaceable || !overwrite) return occupied(path, *there, overwrite);
  const std::optional<unsigned> number = part_number(path);
  if (!number || *number == part) return {};
  if (*number == 0)
    return Error{ErrorCode::exists,
                 "is a pool of its own, and would become part " + std::to_string(part), path,
                 "move it away, or name another path"};
  return Error{ErrorCode::exists, "is part " + std::to_string(*number) + " of a pool", path,
               "name the pool by its first part, or name another path"};
}

std::optional<MadeFile> MadeFile::at(const std::string& path) {
  std::error_code unresolved;
  const std::string target = std::filesystem::canonical(path, unresolved).string();
  struct stat status {};
  if (unresolved || lstat(target.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
    return std::nullopt;
  return MadeFile{target, status.st_dev, status.st_ino};
}

bool MadeFile::is_there() const noexcept {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && status.st_dev == device && status.st_ino == number;
}

void MadeFile::remove() const noexcept {
  if (is_there()) unlink(path.c_str());
}

}  // namespace perdure
