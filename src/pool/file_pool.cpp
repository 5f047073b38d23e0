#include "pool/file_pool.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "pm/persist.h"
#include "pool/new_file.h"
#include "pool/occupant.h"
#include "pool/parts_heap.h"
#include "pool/slab_heap.h"

namespace perdure {
namespace {

std::uint64_t bytes_of_part(const PoolOptions& options) {
  const std::uint64_t pages = (options.bytes + 4095) / 4096;
  return (pages + options.parts - 1) / options.parts * 4096;
}

}  // namespace

/// Where a part of a new pool goes. A device is its own file: it is neither created nor replaced,
/// and a pool on it is overwritten only with `overwrite`.
class FilePool::Site {
 public:
  [[nodiscard]] static Result<Site> take(const PoolOptions& options, unsigned part,
                                         std::uint64_t bytes) {
    const std::string path =
        options.path == memory_path ? options.path : part_path(options.path, part);
    const bool overwrite = options.overwrite;
    Site site;
    site.path_ = path;
    if (path == memory_path) {
      Result<NewFile> made = NewFile::create(path, bytes, overwrite, part);
      if (!made) return made.error();
      site.made_ = std::move(*made);
      return site;
    }
    if (const Result<void> vacant = check_vacancy(path, part, overwrite); !vacant)
      return vacant.error();
    Result<File> existing = open_file(path);
    site.is_device_ = existing.ok() && is_device(*existing);
    if (!site.is_device_) {
      existing = File();
      Result<NewFile> made = NewFile::create(path, bytes, overwrite, part);
      if (!made) return made.error();
      site.made_ = std::move(*made);
      if (const Result<void> locked = lock_file(site.made_->file(), path); !locked)
        return locked.error();
      return site;
    }
    const Result<std::uint64_t> available = size_of(*existing, path);
    if (!available) return available.error();
    if (const Result<void> locked = lock_file(*existing, path); !locked) return locked.error();
    alignas(8) std::byte page[pool_header_bytes];
    if (const Result<void> read = read_first_page(*existing, path, page); !read)
      return read.error();
    if (!overwrite && std::memcmp(page, pool_magic.data(), pool_magic.size()) == 0)
      return occupied(path, Occupant::pm_device, overwrite);
    if (bytes > *available)
      return Error{ErrorCode::out_of_space,
                   "the device has " + std::to_string(*available) + " bytes", path,
                   "ask for a smaller pool"};
    site.device_ = std::move(*existing);
    return site;
  }

  [[nodiscard]] const File& file() const noexcept { return is_device_ ? device_ : made_->file(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] bool needs_room() const noexcept { return made_ && made_->needs_room(); }
  [[nodiscard]] Result<void> withdraw_replaced() {
    return made_ ? made_->withdraw_replaced() : Result<void>();
  }
  [[nodiscard]] Result<void> fill(bool huge_pages) const {
    return is_device_ ? Result<void>() : made_->fill(huge_pages);
  }
  [[nodiscard]] Result<File> publish() {
    return is_device_ ? Result<File>(std::move(device_)) : made_->publish();
  }
  /// Takes the name back.
  void unpublish() const noexcept {
    if (!is_device_ && path_ != memory_path) static_cast<void>(take_name(path_));
  }

 private:
  std::string path_;
  bool is_device_ = false;
  File device_;
  std::optional<NewFile> made_;
};

std::optional<unsigned> FilePool::node_of(unsigned part) const noexcept {
  if (parts() == 1 || nodes_.empty()) return std::nullopt;
  return nodes_[part % nodes_.size()];
}

pm::PoolPart FilePool::place_of(unsigned part, const PoolOptions& options) const noexcept {
  pm::PoolPart place;
  place.node = node_of(part).value_or(pm::any_node);
  if (parts() > 1) place.number = part;
  place.in_dram = std::ranges::find(options.parts_in_dram, part) != options.parts_in_dram.end();
  return place;
}

template <class MapPart>
Result<void> FilePool::map(const PoolOptions& options, const MapPart& map_part) {
  path_ = part_path(options.path, 0);
  nodes_ = options.nodes;
  AddressRange range;
  if (parts() > 1) {
    Result<AddressRange> reserved =
        AddressRange::reserve(extent_bytes(), options.map_address, path_);
    if (!reserved) return reserved.error();
    range = std::move(*reserved);
  }
  const std::uint64_t start = parts() > 1 ? range.address() : options.map_address;
  for (unsigned n = 0; n < parts(); ++n) {
    const PreferredNode preferred(node_of(n));
    range.release_to(start + start_of_part(n + 1));
    Result<Mapping> mapped = map_part(n, start + start_of_part(n));
    if (!mapped) return mapped.error();
    mapping_.push_back(std::move(*mapped));
  }
  base_ = mapping_.front().base();
  header_ = &header_of(0);
  if (heap_kind_ == HeapKind::dram) return {};
  for (unsigned n = parts(); n-- > 0;)
    pm::note_persistent(part(n).data(), part_bytes(), false, place_of(n, options));
  return {};
}

void FilePool::use_huge_pages() {
  for (unsigned n = 0; n < parts(); ++n) {
    const PreferredNode preferred(node_of(n));
    request_huge_pages(part(n).data(), part_bytes(), medium_);
  }
}

void FilePool::prefault_parts() {
  for (unsigned n = 0; n < parts(); ++n) {
    const PreferredNode preferred(node_of(n));
    prefault(part(n).data(), part_bytes());
  }
}

Result<void> FilePool::format() {
  write_header(*header_, heap_kind_, part_bytes(), pool_header_bytes, parts());
  for (unsigned n = 1; n < parts(); ++n)
    write_part_header(header_of(n), *header_, n, file_.empty());
  for (unsigned n = 0; n < parts(); ++n)
    sync_page_cache(part(n).data(), pool_header_bytes, medium_);
  attach_heap();
  return start_new();
}

void FilePool::attach_heap() {
  if (parts() == 1)
    heap_ = std::make_unique<SlabHeap>(pool_header_bytes, part_bytes());
  else
    heap_ =
        std::make_unique<PartsHeap>(parts(), part_shift(), pool_header_bytes, part_bytes(), nodes_);
}

Result<std::unique_ptr<Pool>> FilePool::create(const PoolOptions& options) {
  const std::uint64_t bytes = bytes_of_part(options);
  std::vector<Site> sites;
  for (unsigned n = 0; n < options.parts; ++n) {
    Result<Site> site = Site::take(options, n, bytes);
    if (!site) return site.error();
    sites.push_back(std::move(*site));
  }
  const Result<ReplacedParts> old = ReplacedParts::of(options.path, options.parts);
  if (!old) return old.error();
  if (std::ranges::any_of(sites, &Site::needs_room))
    if (const Result<void> gone = withdraw(sites, *old); !gone) return gone.error();
  std::unique_ptr<FilePool> pool(new FilePool);
  pool->medium_ = medium_of(sites.front().file().get());
  pool->set_size(bytes, options.parts);
  pool->file_.resize(options.parts);
  const bool huge_files = options.huge_pages && pool->medium_ == Medium::tmpfs;
  const auto map_part = [&](unsigned n, std::uint64_t address) -> Result<Mapping> {
    if (const Result<void> room = sites[n].fill(huge_files); !room) return room.error();
    return Mapping::of_file(sites[n].file().get(), bytes, address, sites[n].path());
  };
  if (const Result<void> mapped = pool->map(options, map_part); !mapped) return mapped.error();
  if (options.huge_pages) pool->use_huge_pages();
  if (options.prefault) pool->prefault_parts();
  if (const Result<void> formatted = pool->format(); !formatted) return formatted.error();
  if (const Result<void> named = pool->publish(sites, *old); !named) return named.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

// V1. Nothing is left of the old pool where one file of it must go before the new one is whole.
Result<void> FilePool::withdraw(std::span<Site> sites, const ReplacedParts& old) {
  if (const Result<void> disowned = old.disown(); !disowned) return disowned;
  for (Site& site : sites)
    if (const Result<void> gone = site.withdraw_replaced(); !gone) return gone;
  return {};
}

// V1 and P5: what has the first part's name has all the others.
Result<void> FilePool::publish(std::span<Site> sites, const ReplacedParts& old) {
  if (const Result<void> disowned = old.disown(); !disowned) return disowned;
  if (old.go_one_by_one())
    if (const Result<void> gone = sites.front().withdraw_replaced(); !gone) return gone;
  for (std::size_t n = sites.size(); n-- > 0;) {
    Result<File> named = sites[n].publish();
    if (!named) {
      for (std::size_t other = n + 1; other < sites.size(); ++other) sites[other].unpublish();
      return named.error();
    }
    file_[n] = std::move(*named);
  }
  finish_parts();
  old.remove_surplus();
  return {};
}

// H5
void FilePool::finish_parts() {
  for (unsigned n = 1; n < parts(); ++n) {
    if (header_of(n).clean.load(std::memory_order_relaxed) == 0) continue;
    announce_name_change();
    finish_part_header(header_of(n));
    sync_page_cache(part(n).data(), pool_header_bytes, medium_);
  }
}

Result<std::unique_ptr<Pool>> FilePool::create_in_memory(const PoolOptions& options) {
  const std::uint64_t bytes = bytes_of_part(options);
  std::unique_ptr<FilePool> pool(new FilePool);
  pool->heap_kind_ = HeapKind::dram;
  pool->set_size(bytes, options.parts);
  const auto map_part = [&](unsigned, std::uint64_t address) {
    return Mapping::anonymous(bytes, address);
  };
  if (const Result<void> mapped = pool->map(options, map_part); !mapped) return mapped.error();
  pool->path_ = "(memory)";
  if (options.huge_pages) pool->use_huge_pages();
  if (options.prefault) pool->prefault_parts();
  if (const Result<void> formatted = pool->format(); !formatted) return formatted.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

// Every part is judged before any is written to (P4).
Result<std::unique_ptr<Pool>> FilePool::open(const PoolOptions& options, File file) {
  std::vector<File> files;
  PoolHeader first;
  for (unsigned n = 0; n < options.parts; ++n) {
    const std::string path = part_path(options.path, n);
    if (n > 0) {
      Result<File> opened = open_file(path);
      if (!opened && opened.error().code == ErrorCode::not_found)
        return Error{ErrorCode::not_found,
                     "part " + std::to_string(n) + " of " + std::to_string(options.parts) +
                         " of the pool is missing",
                     path, "put it back, or create a new pool"};
      if (!opened) return opened.error();
      file = std::move(*opened);
    }
    // Read under the lock, even if again: until now another process may have been writing it.
    if (const Result<void> locked = lock_file(file, path); !locked) return locked.error();
    PoolHeader header;
    if (const Result<void> read =
            read_first_page(file, path, reinterpret_cast<std::byte*>(&header));
        !read)
      return read.error();
    const Result<std::uint64_t> available = size_of(file, path);
    if (!available) return available.error();
    if (const Result<void> valid = check_header(header, *available, path); !valid)
      return valid.error();
    if (header.heap_kind != static_cast<std::uint8_t>(HeapKind::slab) ||
        header.heap_offset != pool_header_bytes)
      return corrupt_pool(path, "the pool header names a heap that no file has");
    if (n == 0) std::memcpy(static_cast<void*>(&first), &header, sizeof first);
    const Result<void> belongs =
        n == 0 ? check_first_part(header, options.parts, path) : check_part(header, first, n, path);
    if (!belongs) return belongs.error();
    files.push_back(std::move(file));
  }
  std::unique_ptr<FilePool> pool(new FilePool);
  pool->medium_ = medium_of(files.front().get());
  pool->set_size(first.pool_bytes, options.parts);
  const auto map_part = [&](unsigned n, std::uint64_t address) -> Result<Mapping> {
    const std::string path = part_path(options.path, n);
    // A copy may have become sparse: a store into a hole of a full file system would kill us.
    if (!is_device(files[n]))
      if (const Result<void> room = allocate_blocks(files[n], first.pool_bytes, path); !room)
        return room.error();
    return Mapping::of_file(files[n].get(), first.pool_bytes, address, path);
  };
  if (const Result<void> mapped = pool->map(options, map_part); !mapped) return mapped.error();
  if (options.huge_pages) pool->use_huge_pages();
  pool->file_ = std::move(files);
  pool->finish_parts();
  pool->attach_heap();
  if (const Result<void> started = pool->start_existing(); !started) return started.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

void FilePool::adopt(std::span<std::byte> memory, std::uint64_t part_bytes, unsigned parts) {
  base_ = memory.data();
  set_size(part_bytes, parts);
  path_ = "(image)";
  header_ = &header_of(0);
}

Result<std::unique_ptr<Pool>> FilePool::create_in(std::span<std::byte> memory, unsigned parts) {
  const std::uint64_t bytes = memory.size() / parts;
  if (bytes < Pool::min_image_bytes || memory.size() % pool_header_bytes != 0 ||
      reinterpret_cast<std::uintptr_t>(memory.data()) % pool_header_bytes != 0 ||
      (parts > 1 && (!std::has_single_bit(bytes) || parts * bytes != memory.size())))
    return Error{ErrorCode::usage,
                 "an image of " + std::to_string(memory.size()) + " bytes in " +
                     std::to_string(parts) + " parts",
                 "(image)",
                 "give whole pages, at least " + std::to_string(Pool::min_image_bytes) +
                     " bytes a part, and a power of two where there are several"};
  std::unique_ptr<FilePool> pool(new FilePool);
  pool->adopt(memory, bytes, parts);
  if (const Result<void> formatted = pool->format(); !formatted) return formatted.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

Result<std::unique_ptr<Pool>> FilePool::open_in(std::span<std::byte> memory) {
  std::unique_ptr<FilePool> pool(new FilePool);
  pool->adopt(memory, memory.size(), 1);
  const std::string& path = pool->path_;
  if (memory.size() < pool_header_bytes) return foreign_error(path);
  const PoolHeader& first = *pool->header_;
  if (const Result<void> valid = check_header(first, memory.size(), path, Pool::min_image_bytes);
      !valid)
    return valid.error();
  if (first.heap_kind != static_cast<std::uint8_t>(HeapKind::slab) ||
      first.heap_offset != pool_header_bytes)
    return Error{ErrorCode::corrupt, "the pool header names a heap that no image has", path,
                 "restore the image from a copy"};
  pool->set_size(first.pool_bytes, first.more_parts + 1U);
  if (pool->extent_bytes() > memory.size())
    return Error{ErrorCode::truncated, "the image lacks parts", path,
                 "restore the image from a copy"};
  for (unsigned n = 1; n < pool->parts(); ++n) {
    const PoolHeader& header = pool->header_of(n);
    if (const Result<void> valid =
            check_header(header, pool->part_bytes(), path, Pool::min_image_bytes);
        !valid)
      return valid.error();
    if (const Result<void> belongs = check_part(header, first, n, path); !belongs)
      return belongs.error();
  }
  pool->attach_heap();
  if (const Result<void> started = pool->start_existing(); !started) return started.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

void FilePool::note_not_persistent() const noexcept {
  for (unsigned n = 0; n < parts(); ++n) pm::note_not_persistent(part(n).data());
}

FilePool::~FilePool() {
  heap_.reset();  // before the mapping it speaks of
  if (base_ != nullptr) note_not_persistent();
}

Result<void> FilePool::close() {
  if (base_ == nullptr) return {};
  for (unsigned n = 0; n < parts(); ++n) sync_page_cache(part(n).data(), part_bytes(), medium_);
  finish();
  heap_.reset();
  note_not_persistent();
  mapping_.clear();
  file_.clear();
  base_ = nullptr;
  header_ = nullptr;
  ready_ = false;
  return {};
}

Result<void> read_first_page(const File& file, const std::string& path, std::byte* page) {
  const Result<std::uint64_t> available = size_of(file, path);
  if (!available) return available.error();
  if (is_device(file)) {
    const Result<Mapping> window = Mapping::of_file(file.get(), huge_page_size, 0, path);
    if (!window) return window.error();
    std::memcpy(page, window->base(), pool_header_bytes);
    return {};
  }
  std::memset(page, 0, pool_header_bytes);
  const auto wanted = static_cast<std::size_t>(std::min(*available, pool_header_bytes));
  const ssize_t got = pread(file.get(), page, wanted, 0);
  if (got < 0)
    return Error{ErrorCode::io, std::string("cannot read: ") + std::strerror(errno), path,
                 "check the medium"};
  const auto telling = std::min(static_cast<std::size_t>(got), pool_magic.size());
  if (static_cast<std::size_t>(got) == pool_header_bytes) return {};
  if (std::memcmp(page, pool_magic.data(), telling) != 0) return foreign_error(path);
  return Error{ErrorCode::truncated, "the file is shorter than a pool header", path,
               "restore the file from a copy, or create a new pool"};
}

}  // namespace perdure
