#include "index/reference/engine_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "index/reference/engine_files.h"
#include "pool/occupant.h"

namespace perdure {
namespace {

namespace fs = std::filesystem;

Error refused(const std::string& what, const std::string& path, int number) {
  return {ErrorCode::io, what + ": " + std::generic_category().message(number), path,
          "check the path, its permissions and its file system"};
}

Error in_use(const std::string& path) {
  return {ErrorCode::busy, "another process uses this index", path,
          "wait for it to end, or name another path"};
}

Error not_ours(const std::string& path) {
  return {ErrorCode::exists, "is a directory that perdure did not make", path,
          "name another path, or one in it that does not exist yet"};
}

Result<void> sync_directory(const std::string& path) {
  const File directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return refused("cannot open the directory", path, errno);
  if (::fsync(directory.get()) != 0)
    return refused("cannot make the directory durable", path, errno);
  return {};
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string read_text(const File& mark) {
  std::array<char, 256> text{};
  const ssize_t got = ::pread(mark.get(), text.data(), text.size(), 0);
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : std::string();
}

/// The mark of a directory, never made by looking for it; none where there is no such file.
File open_mark(const File& directory) {
  File mark(::openat(directory.get(), engine_mark, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!mark || ::fstat(mark.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return mark;
}

/// What F2 allows to remove: files, then folders.
struct Inventory {
  std::vector<std::string> files;  ///< relative to the directory
  std::vector<std::string> folders;
  std::string stranger;  ///< the first thing that the engine does not write; empty: none
};

// A link is never followed: no engine makes one.
void take_stock(const std::string& path, std::string_view engine, const std::string& folder,
                Inventory& found) {
  std::error_code failure;
  const fs::path here = folder.empty() ? fs::path(path) : fs::path(path) / folder;
  for (fs::directory_iterator at(here, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename();
    const std::string relative = folder.empty() ? name : folder + "/" + name;
    const fs::file_type type = at->symlink_status(failure).type();
    if (failure) break;
    if (folder.empty() && name == engine_mark) continue;
    if (type == fs::file_type::regular && is_engine_file(engine, folder, name)) {
      found.files.push_back(relative);
    } else if (type == fs::file_type::directory && folder.empty() &&
               is_engine_folder(engine, name)) {
      found.folders.push_back(name);
      take_stock(path, engine, name, found);
    } else if (found.stranger.empty()) {
      found.stranger = relative;
    }
  }
  if (failure && found.stranger.empty())
    found.stranger = (folder.empty() ? "something" : folder) + " that cannot be read";
}

// The mark goes last: until then the directory is known for ours.
Result<void> empty(const std::string& path, const File& directory, const Inventory& found) {
  for (const std::string& file : found.files)
    if (::unlinkat(directory.get(), file.c_str(), 0) != 0)
      return refused("cannot remove", path + "/" + file, errno);
  for (const std::string& folder : found.folders)
    if (::unlinkat(directory.get(), folder.c_str(), AT_REMOVEDIR) != 0)
      return refused("cannot remove", path + "/" + folder, errno);
  if (::unlinkat(directory.get(), engine_mark, 0) != 0)
    return refused("cannot remove", path + "/" + engine_mark, errno);
  return {};
}

Result<void> empty_directory(const std::string& path, bool overwrite) {
  std::error_code failure;
  if (fs::is_empty(path, failure) && !failure) return {};
  const File directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return refused("cannot open the directory", path, errno);
  const File mark = open_mark(directory);
  if (!mark) return not_ours(path);
  if (::flock(mark.get(), LOCK_EX | LOCK_NB) != 0) return in_use(path);
  const std::string text = read_text(mark);
  const std::string engine = engine_of_mark(text);
  Inventory found;
  take_stock(path, engine, "", found);
  // With an old mark, or none of this version, every other file is a stranger.
  const bool nothing_else = text.empty() && found.files.empty() && found.stranger.empty();
  if (!overwrite)
    return Error{ErrorCode::exists, "exists already", path,
                 engine.empty() && !nothing_else ? "open it with recover_index, or name another"
                                                 : "open it with recover_index, replace it with "
                                                   "EngineDirectory::make_room, or name another"};
  if (engine.empty() && !nothing_else)
    return Error{ErrorCode::exists,
                 std::string("its mark ") + engine_mark +
                     (text.empty() ? " is of an earlier version, and does not say who made it"
                                   : " is not one of this version"),
                 path, "remove the directory yourself, or name another path"};
  if (!found.stranger.empty())
    return Error{ErrorCode::exists,
                 "holds '" + found.stranger + "', which is no file of " + engine +
                     ", so EngineDirectory::make_room does not empty it",
                 path, "move that away, or name another path"};
  return empty(path, directory, found);
}

}  // namespace

Result<void> EngineDirectory::make_room(const std::string& given, bool overwrite) {
  const std::string path = without_slash(given);
  if (path.empty()) return {};  // `create` says so
  const Result<Occupant> there = occupant_of(path);
  if (!there) return there.error();
  switch (*there) {
    case Occupant::nothing:
      return {};
    case Occupant::folder:
      return empty_directory(path, overwrite);
    case Occupant::pool:
    case Occupant::empty_file: {
      if (!overwrite)
        return Error{ErrorCode::exists, "is a file, and this index needs a directory", path,
                     "replace it with EngineDirectory::make_room, or name another path"};
      if (const Result<void> alone = check_vacancy(path, 0, true); !alone) return alone;
      const Result<File> file = open_file(path);
      if (!file) return file.error();
      if (const Result<void> locked = lock_file(*file, path); !locked) return locked;
      if (!take_name(path)) return refused("cannot remove", path, errno);
      return {};
    }
    case Occupant::other_file:
      return Error{ErrorCode::exists, "is a file that perdure did not make", path,
                   "name another path, or move the file away"};
    case Occupant::broken_link:
      return occupied(path, Occupant::broken_link, overwrite);
    case Occupant::pm_device:
    case Occupant::other_device:
    case Occupant::channel:
      break;
  }
  return Error{ErrorCode::foreign, "is no directory, which this index needs", path,
               "name a path that does not exist yet"};
}

void EngineDirectory::take_back(const std::string& path, bool with_directory) {
  if (!empty_directory(path, true).ok()) return;
  if (with_directory) ::rmdir(without_slash(path).c_str());
}

Result<EngineDirectory> EngineDirectory::create(const std::string& given, const char* engine) {
  const std::string path = without_slash(given);
  if (path.empty())
    return Error{ErrorCode::usage, "an on-disk index needs a directory", "IndexPlace::path",
                 "name a path that does not exist yet"};
  if (auto room = make_room(path, false); !room) return room.error();
  EngineDirectory directory(path, engine);
  std::error_code failure;
  directory.made_directory_ = fs::create_directory(path, failure);
  if (failure == std::errc::no_such_file_or_directory)
    return Error{ErrorCode::not_found, "the parent directory does not exist", path,
                 "create " + parent_of(path)};
  if (failure) return refused("cannot create the directory", path, failure.value());
  if (auto marked = directory.write_mark(); !marked) return marked.error();
  return directory;
}

Result<EngineDirectory> EngineDirectory::open(const std::string& path, const char* engine) {
  std::error_code failure;
  if (!fs::exists(path, failure))
    return Error{ErrorCode::not_found, "no index is here", path, "create_index makes one"};
  EngineDirectory directory(without_slash(path), engine);
  if (auto read = directory.read_mark(); !read) return read.error();
  return directory;
}

EngineDirectory::EngineDirectory(EngineDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      engine_(other.engine_),
      mark_(std::move(other.mark_)),
      remove_at_end_(std::exchange(other.remove_at_end_, false)),
      made_directory_(other.made_directory_) {}

EngineDirectory::~EngineDirectory() {
  if (!remove_at_end_) return;
  Inventory found;
  take_stock(path_, engine_, "", found);
  const File directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || !found.stranger.empty()) return;
  if (empty(path_, directory, found).ok() && made_directory_) ::rmdir(path_.c_str());
}

Result<void> EngineDirectory::keep() {
  if (auto synced = sync_directory(path_); !synced) return synced;
  if (auto synced = sync_directory(parent_of(path_)); !synced) return synced;
  remove_at_end_ = false;
  return {};
}

// Whoever is killed before the text is there leaves an empty mark alone, which make_room may
// remove.
Result<void> EngineDirectory::write_mark() {
  const std::string name = file(engine_mark);
  mark_ = File(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!mark_ && errno == EEXIST) return in_use(path_);
  if (!mark_) return refused("cannot create the mark", name, errno);
  if (::flock(mark_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return in_use(path_);  // it belongs to whoever holds it
    return refused("cannot lock", name, errno);
  }
  remove_at_end_ = true;
  const std::string text = engine_mark_text(engine_);
  if (::write(mark_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(mark_.get()) != 0)
    return refused("cannot write the mark", name, errno);
  return {};
}

// The kernel drops the lock when the process dies, so nothing is left to clean up after a crash.
Result<void> EngineDirectory::read_mark() {
  const File directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  mark_ = directory ? open_mark(directory) : File();
  if (!mark_)
    return Error{ErrorCode::foreign, "not the directory of an on-disk index", path_,
                 "name the directory that the index was created with"};
  if (::flock(mark_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return in_use(path_);
    return refused("cannot lock", file(engine_mark), errno);
  }
  const std::string text = read_text(mark_);
  if (text.empty() || text == engine_mark_text(engine_)) return {};
  const std::string other = engine_of_mark(text);
  if (other.empty())
    return Error{ErrorCode::foreign, std::string("its mark ") + engine_mark + " is not ours", path_,
                 "name the directory that the index was created with"};
  return Error{ErrorCode::foreign, "holds an index of " + other, path_,
               "give IndexRegistry::find " + other};
}

}  // namespace perdure
