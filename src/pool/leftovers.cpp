#include "pool/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "pool/occupant.h"
#include "pool/pmdk_file.h"
#include "pool/pool.h"

namespace perdure {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t any_size = ~std::uint64_t{0};

/// A regular file at this very name, for reading; none where it is something else.
File look_at(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return File(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

bool read_page_of(const File& file, PoolHeader& header) {
  return file && pread(file.get(), static_cast<void*>(&header), sizeof header, 0) ==
                     static_cast<ssize_t>(sizeof header);
}

bool is_sound(const PoolHeader& header, const std::string& path) {
  return check_header(header, any_size, path).ok();
}

bool is_blank(const File& file) {
  std::array<char, pool_header_bytes> page{};
  const ssize_t got = pread(file.get(), page.data(), page.size(), 0);
  return got >= 0 && std::ranges::all_of(page, [](char byte) { return byte == 0; });
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The process that made an interim name of `base` or, with a part's number after it, of a part.
std::optional<pid_t> maker_in(std::string_view name, std::string_view base,
                              std::string_view infix) {
  const std::size_t at = name.rfind(infix);
  if (at == std::string_view::npos || !name.starts_with(base) || at < base.size())
    return std::nullopt;
  const std::string_view part = name.substr(base.size(), at - base.size());
  const std::string_view number = name.substr(at + infix.size());
  if (!is_number(number)) return std::nullopt;
  if (!part.empty() && !(part.front() == '.' && is_number(part.substr(1)))) return std::nullopt;
  return static_cast<pid_t>(std::stol(std::string(number)));
}

// A file on a file system that has no unnamed ones is locked only some time after it was made.
bool is_abandoned(const std::string& path, pid_t maker, bool half_made) {
  if (half_made && (kill(maker, 0) == 0 || errno == EPERM)) return false;
  const File file = look_at(path);
  if (!file || !lock_file(file, path).ok()) return false;
  const Occupant content = occupant_of(file);
  return content == Occupant::pool || content == Occupant::empty_file ||
         (half_made && is_blank(file));
}

// What else lies in the folder may not show in the heap, on which the simulated caches depend: so
// nothing is allocated for a name that is not one of these.
void remove_interim_names(const fs::path& path) {
  const std::string base = path.filename();
  const fs::path folder = path.parent_path().empty() ? "." : path.parent_path();
  const auto close = [](DIR* names) { closedir(names); };
  const std::unique_ptr<DIR, decltype(close)> names(opendir(folder.c_str()), close);
  while (const dirent* const entry = names ? readdir(names.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    const auto replacing = maker_in(name, base, ".replacing.");
    const auto creating = maker_in(name, base, ".creating.");
    if (!replacing && !creating) continue;
    const std::string there = folder / name;
    if (is_abandoned(there, replacing ? *replacing : *creating, creating.has_value()))
      static_cast<void>(take_name(there));
  }
}

// A file that a link leads to has its interim names beside itself.
void remove_interim_names_of(const std::string& path) {
  remove_interim_names(path);
  std::error_code failure;
  if (!fs::is_symlink(path, failure)) return;
  const fs::path target = fs::canonical(path, failure);
  if (!failure) remove_interim_names(target);
}

// H5. Its pool must not be the one that stands at the first part's name.
void remove_orphan(const std::string& path, unsigned part, const PoolHeader* first) {
  const File file = look_at(path);
  if (!file || !lock_file(file, path).ok()) return;
  PoolHeader header;
  if (!read_page_of(file, header) || !is_sound(header, path) || header.part != part ||
      header.clean.load(std::memory_order_relaxed) != PoolHeader::unfinished_word)
    return;
  if (first == nullptr || first->uuid != header.uuid) static_cast<void>(take_name(path));
}

}  // namespace

void remove_leftovers(const std::string& path) {
  if (path == memory_path) return;
  const std::string first_path = Pool::part_path(path, 0);
  remove_interim_names_of(first_path);
  PoolHeader first;
  struct stat status {};
  bool has_parts = false;
  const bool is_there = stat(first_path.c_str(), &status) == 0;
  if (is_there) {
    if (!S_ISREG(status.st_mode)) return;
    const File file(open(first_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const bool is_readable = read_page_of(file, first) && is_sound(first, first_path);
    // A first part that cannot be read may be anyone's: its further parts stay. One of libpmemobj
    // has none.
    if (!is_readable && !(file && is_our_pmdk_file(file))) return;
    has_parts = is_readable;
  }
  const bool has_place = Pool::part_path(path, 1) != first_path + ".1";
  for (unsigned n = 1; n < Pool::max_parts; ++n) {
    const std::string part = Pool::part_path(path, n);
    if (has_place) remove_interim_names_of(part);
    remove_orphan(part, n, has_parts ? &first : nullptr);
  }
}

Result<ReplacedParts> ReplacedParts::of(const std::string& path, unsigned kept) {
  ReplacedParts parts;
  if (path == memory_path) return parts;
  PoolHeader first;
  const std::string first_path = Pool::part_path(path, 0);
  struct stat status {};
  if (stat(first_path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return parts;
  const File file(open(first_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!read_page_of(file, first) || !is_sound(first, first_path)) return parts;
  for (unsigned n = 1; n <= first.more_parts; ++n) {
    const std::string part = Pool::part_path(path, n);
    File found = look_at(part);
    PoolHeader header;
    if (!read_page_of(found, header) || !is_sound(header, part) ||
        !check_part(header, first, n, part).ok())
      continue;
    parts.all_.push_back(part);
    if (n < kept) continue;
    if (const Result<void> locked = lock_file(found, part); !locked) return locked.error();
    parts.surplus_.push_back(part);
    parts.locked_.push_back(std::move(found));
  }
  return parts;
}

Result<void> ReplacedParts::disown() const {
  for (const std::string& path : all_) {
    const File file(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    constexpr std::uint64_t word = PoolHeader::unfinished_word;
    announce_name_change();
    if (!file ||
        pwrite(file.get(), &word, sizeof word, offsetof(PoolHeader, clean)) != sizeof word ||
        fdatasync(file.get()) != 0)
      return Error{ErrorCode::io, std::string("cannot write: ") + std::strerror(errno), path,
                   "check the path and its permissions"};
  }
  return {};
}

void ReplacedParts::remove_surplus() const {
  for (const std::string& path : surplus_) static_cast<void>(take_name(path));
}

}  // namespace perdure
