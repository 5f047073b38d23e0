#include "pool/file_pool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pm/persist.h"
#include "pool/slab_heap.h"

namespace perdure {
namespace {

constexpr std::uint64_t least_image_bytes = std::uint64_t{128} << 10;

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

Result<void> FilePool::map(const PoolOptions& options, const File& file, std::uint64_t bytes) {
  Result<Mapping> mapping = Mapping::of_file(file.get(), bytes, options.map_address, options.path);
  if (!mapping) return mapping.error();
  mapping_ = std::move(*mapping);
  base_ = mapping_.base();
  pm::note_persistent(base_, bytes, false);
  bytes_ = bytes;
  path_ = options.path;
  heap_kind_ = HeapKind::slab;
  header_ = reinterpret_cast<PoolHeader*>(base_);
  return {};
}

void FilePool::attach_heap() { heap_ = std::make_unique<SlabHeap>(pool_header_bytes, bytes_); }

Result<std::unique_ptr<Pool>> FilePool::create(const PoolOptions& options) {
  // A device is its own file: it is neither created nor replaced, and a pool on it is only
  // overwritten when asked for.
  Result<File> existing = open_file(options.path);
  const bool device = existing.ok() && is_device(*existing);
  std::uint64_t bytes = whole_pages(options.bytes);
  std::unique_ptr<FilePool> pool(new FilePool);
  Result<NewFile> made = Error{};
  if (device) {
    const Result<std::uint64_t> available = size_of(*existing, options.path);
    if (!available) return available.error();
    if (const Result<void> locked = lock_file(*existing, options.path); !locked)
      return locked.error();
    alignas(8) std::byte page[pool_header_bytes];
    if (const Result<void> read = read_first_page(*existing, options.path, page); !read)
      return read.error();
    if (!options.overwrite && std::memcmp(page, pool_magic.data(), pool_magic.size()) == 0)
      return Error{ErrorCode::exists, "the device holds a pool", options.path,
                   "add --force to replace it, or --reuse to open it"};
    if (bytes > *available)
      return Error{ErrorCode::out_of_space,
                   "the device has " + std::to_string(*available) + " bytes", options.path,
                   "ask for a smaller pool"};
  } else {
    existing = File();
    made = NewFile::create(options.path, bytes, options.overwrite);
    if (!made) return made.error();
    if (const Result<void> locked = lock_file(made->file(), options.path); !locked)
      return locked.error();
  }
  const File& file = device ? *existing : made->file();
  pool->medium_ = medium_of(file.get());
  const bool huge_file = options.huge_pages && pool->medium_ == Medium::tmpfs;
  if (!device)
    if (const Result<void> room = made->fill(huge_file); !room) return room.error();
  if (const Result<void> mapped = pool->map(options, file, bytes); !mapped) return mapped.error();
  if (options.huge_pages) request_huge_pages(pool->base_, bytes, pool->medium_);
  if (options.prefault) prefault(pool->base_, bytes);
  write_header(*pool->header_, HeapKind::slab, bytes, pool_header_bytes);
  sync_page_cache(pool->base_, pool_header_bytes, pool->medium_);
  pool->attach_heap();
  if (const Result<void> started = pool->start_new(); !started) return started.error();
  if (device) {
    pool->file_ = std::move(*existing);
  } else {
    Result<File> named = made->publish();
    if (!named) return named.error();
    pool->file_ = std::move(*named);
  }
  return std::unique_ptr<Pool>(std::move(pool));
}

Result<std::unique_ptr<Pool>> FilePool::create_in_memory(const PoolOptions& options) {
  const std::uint64_t bytes = whole_pages(options.bytes);
  Result<Mapping> mapping = Mapping::anonymous(bytes, options.map_address);
  if (!mapping) return mapping.error();
  std::unique_ptr<FilePool> pool(new FilePool);
  pool->mapping_ = std::move(*mapping);
  pool->base_ = pool->mapping_.base();
  pool->bytes_ = bytes;
  pool->path_ = "(memory)";
  pool->heap_kind_ = HeapKind::dram;
  pool->medium_ = Medium::anonymous;
  pool->header_ = reinterpret_cast<PoolHeader*>(pool->base_);
  if (options.huge_pages) request_huge_pages(pool->base_, bytes, Medium::anonymous);
  if (options.prefault) prefault(pool->base_, bytes);
  write_header(*pool->header_, HeapKind::dram, bytes, pool_header_bytes);
  pool->attach_heap();
  if (const Result<void> started = pool->start_new(); !started) return started.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

Result<std::unique_ptr<Pool>> FilePool::open(const PoolOptions& options, File file) {
  if (const Result<void> locked = lock_file(file, options.path); !locked) return locked.error();
  PoolHeader header;
  // Read again under the lock: until now another process may have been writing it.
  if (const Result<void> read =
          read_first_page(file, options.path, reinterpret_cast<std::byte*>(&header));
      !read)
    return read.error();
  const Result<std::uint64_t> available = size_of(file, options.path);
  if (!available) return available.error();
  if (const Result<void> valid = check_header(header, *available, options.path); !valid)
    return valid.error();
  if (header.heap_kind != static_cast<std::uint8_t>(HeapKind::slab) ||
      header.heap_offset != pool_header_bytes)
    return Error{ErrorCode::corrupt, "the pool header names a heap that no file has", options.path,
                 "restore the file from a copy, or create a new pool"};
  std::unique_ptr<FilePool> pool(new FilePool);
  pool->medium_ = medium_of(file.get());
  // A copy may have become sparse: a store into a hole of a full file system would kill us.
  if (!is_device(file))
    if (const Result<void> room = allocate_blocks(file, header.pool_bytes, options.path); !room)
      return room.error();
  if (const Result<void> mapped = pool->map(options, file, header.pool_bytes); !mapped)
    return mapped.error();
  if (options.huge_pages) request_huge_pages(pool->base_, pool->bytes_, pool->medium_);
  pool->file_ = std::move(file);
  pool->attach_heap();
  if (const Result<void> started = pool->start_existing(); !started) return started.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

std::unique_ptr<FilePool> FilePool::over(std::span<std::byte> memory) {
  std::unique_ptr<FilePool> pool(new FilePool);
  pool->base_ = memory.data();
  pool->bytes_ = memory.size();
  pool->path_ = "(image)";
  pool->heap_kind_ = HeapKind::slab;
  pool->medium_ = Medium::anonymous;
  pool->header_ = reinterpret_cast<PoolHeader*>(pool->base_);
  return pool;
}

Result<std::unique_ptr<Pool>> FilePool::create_in(std::span<std::byte> memory) {
  if (memory.size() < least_image_bytes || memory.size() % pool_header_bytes != 0 ||
      reinterpret_cast<std::uintptr_t>(memory.data()) % pool_header_bytes != 0)
    return Error{ErrorCode::usage, "an image of " + std::to_string(memory.size()) + " bytes",
                 "(image)",
                 "give whole pages, at least " + std::to_string(least_image_bytes) + " bytes"};
  std::unique_ptr<FilePool> pool = over(memory);
  write_header(*pool->header_, HeapKind::slab, memory.size(), pool_header_bytes);
  pool->attach_heap();
  if (const Result<void> started = pool->start_new(); !started) return started.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

Result<std::unique_ptr<Pool>> FilePool::open_in(std::span<std::byte> memory) {
  std::unique_ptr<FilePool> pool = over(memory);
  if (memory.size() < pool_header_bytes) return foreign_error(pool->path_);
  if (const Result<void> valid =
          check_header(*pool->header_, memory.size(), pool->path_, least_image_bytes);
      !valid)
    return valid.error();
  if (pool->header_->heap_kind != static_cast<std::uint8_t>(HeapKind::slab) ||
      pool->header_->heap_offset != pool_header_bytes)
    return Error{ErrorCode::corrupt, "the pool header names a heap that no image has", pool->path_,
                 "restore the image from a copy"};
  pool->bytes_ = pool->header_->pool_bytes;
  pool->attach_heap();
  if (const Result<void> started = pool->start_existing(); !started) return started.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

FilePool::~FilePool() {
  heap_.reset();  // before the mapping it speaks of
  if (base_ != nullptr) pm::note_not_persistent(base_);
}

Result<void> FilePool::close() {
  if (base_ == nullptr) return {};
  sync_page_cache(base_, bytes_, medium_);
  finish();
  heap_.reset();
  pm::note_not_persistent(base_);
  mapping_ = Mapping();
  file_ = File();
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
