#include "core/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace perdure {
namespace {

namespace fs = std::filesystem;

constexpr mode_t new_file_mode = 0666;  // less what the process's mask takes

// A link to a file that does not exist yet names where that file will be.
std::string target_of(const std::string& path) {
  constexpr int most_links = 40;
  fs::path target = path;
  std::error_code failure;
  for (int i = 0; i < most_links && fs::is_symlink(target, failure); ++i) {
    const fs::path next = fs::read_symlink(target, failure);
    if (failure) break;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target;
}

std::string folder_name(const std::string& path) {
  const std::string folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

}  // namespace

Error OutputFile::error(int number) const {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return {full ? ErrorCode::out_of_space : ErrorCode::io,
          std::string("cannot be written: ") + std::strerror(number), given_,
          full ? "free some space, or name a file elsewhere"
               : "name a file in a folder you may write to"};
}

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile file;
  file.given_ = path;
  if (path.empty()) return Error{ErrorCode::usage, "no path for the output", "", "name a file"};
  file.path_ = target_of(path);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) return file.error(errno);
    if (path.ends_with('/'))
      return Error{ErrorCode::usage, "names a directory", path, "name a file"};
    if (auto opened = file.open_beside(); !opened) return opened.error();
    return file;
  }
  if (S_ISDIR(status.st_mode))
    return Error{ErrorCode::exists, "is a directory", path, "name a file in it"};
  file.replaces_ = true;
  file.mode_ = status.st_mode & 07777U;
  if (S_ISREG(status.st_mode)) {
    if (access(path.c_str(), W_OK) != 0) return file.error(errno);
    if (file.open_beside().ok()) return file;
  }
  // A device, or a file in a folder where no file can be made: emptied when it is written.
  file.direct_ = true;
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (file.descriptor_ < 0) return file.error(errno);
  return file;
}

Result<void> OutputFile::open_beside() {
  const std::string folder = folder_name(path_);
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, new_file_mode);
  if (descriptor_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    beside_ = path_ + ".writing." + std::to_string(getpid());
    descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, new_file_mode);
    if (descriptor_ < 0) beside_.clear();
  }
  if (descriptor_ >= 0) return {};
  if (errno == ENOENT)
    return Error{ErrorCode::not_found, "its folder does not exist", given_,
                 "make " + folder + ", or name a file elsewhere"};
  return error(errno);
}

OutputFile::~OutputFile() {
  if (!beside_.empty()) unlink(beside_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept { *this = std::move(other); }

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(given_, other.given_);
  std::swap(path_, other.path_);
  std::swap(beside_, other.beside_);
  std::swap(direct_, other.direct_);
  std::swap(replaces_, other.replaces_);
  std::swap(mode_, other.mode_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Result<void> OutputFile::write(std::string_view text) {
  if (direct_ && replaces_) {
    replaces_ = false;  // only before the first byte
    struct stat status {};
    if (fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) &&
        ftruncate(descriptor_, 0) != 0)
      return error(errno);
  }
  while (!text.empty()) {
    const ssize_t done = ::write(descriptor_, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return error(errno);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return {};
}

// A hard link never replaces a file, a rename does: so an unnamed file first gets a temporary name.
Result<void> OutputFile::publish() {
  if (direct_) return {};
  if (replaces_ && fchmod(descriptor_, mode_) != 0) return error(errno);
  if (beside_.empty()) {
    const std::string unnamed = "/proc/self/fd/" + std::to_string(descriptor_);
    const std::string name = path_ + ".writing." + std::to_string(getpid());
    if (linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return error(errno);
    beside_ = name;
  }
  if (rename(beside_.c_str(), path_.c_str()) != 0) return error(errno);
  beside_.clear();
  return {};
}

}  // namespace perdure
