#include "index/reference/engine_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace perdure {
namespace {

namespace fs = std::filesystem;

Error refused(const std::string& what, const std::string& path, int number) {
  return {ErrorCode::io, what + ": " + std::generic_category().message(number), path,
          "check the path, its permissions and its file system"};
}

Result<void> sync_directory(const std::string& path) {
  const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return refused("cannot open the directory", path, errno);
  const int failure = ::fsync(directory) == 0 ? 0 : errno;
  ::close(directory);
  if (failure != 0) return refused("cannot make the directory durable", path, failure);
  return {};
}

std::string parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace

Result<EngineDirectory> EngineDirectory::create(const std::string& given) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.empty())
    return Error{ErrorCode::usage, "an on-disk index needs a directory", "--pool",
                 "name a path that does not exist yet"};
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  const bool there = fs::exists(status);
  if (there && !(fs::is_directory(status) && fs::is_empty(path, failure)))
    return Error{ErrorCode::exists, "something is there already", path,
                 "reuse it with --reuse, replace it with --force, or name another path"};
  if (!there && !fs::create_directory(path, failure)) {
    if (failure == std::errc::no_such_file_or_directory)
      return Error{ErrorCode::not_found, "the parent directory does not exist", path,
                   "create " + parent_of(path)};
    return refused("cannot create the directory", path, failure.value());
  }
  EngineDirectory directory(std::move(path), true);
  if (auto locked = directory.lock(); !locked) return locked.error();
  return directory;
}

Result<EngineDirectory> EngineDirectory::open(const std::string& path) {
  std::error_code failure;
  if (!fs::exists(path, failure))
    return Error{ErrorCode::not_found, "no index is here", path, "create one without --reuse"};
  if (!fs::is_directory(path, failure))
    return Error{ErrorCode::foreign, "not the directory of an on-disk index", path,
                 "name the directory that the index was created with"};
  EngineDirectory directory(path, false);
  if (auto locked = directory.lock(); !locked) return locked.error();
  return directory;
}

EngineDirectory::EngineDirectory(EngineDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      remove_at_end_(std::exchange(other.remove_at_end_, false)) {}

EngineDirectory::~EngineDirectory() {
  if (remove_at_end_) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  if (lock_ >= 0) ::close(lock_);
}

Result<void> EngineDirectory::keep() {
  if (auto synced = sync_directory(path_); !synced) return synced;
  if (auto synced = sync_directory(parent_of(path_)); !synced) return synced;
  remove_at_end_ = false;
  return {};
}

// The kernel drops the lock when the process dies, so nothing is left to clean up after a crash.
Result<void> EngineDirectory::lock() {
  const std::string name = file("perdure.lock");
  lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) return refused("cannot create the lock file", name, errno);
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return {};
  const int number = errno;
  if (number != EWOULDBLOCK) return refused("cannot lock", name, number);
  remove_at_end_ = false;  // it belongs to whoever holds it
  return Error{ErrorCode::busy, "another process uses this index", path_,
               "wait for it to end, or name another path"};
}

}  // namespace perdure
