#include "pool/pmdk_pool.h"

#include <libpmemobj.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "pm/persist.h"
#include "pool/leftovers.h"
#include "pool/mapping.h"
#include "pool/pmdk_heap.h"
#include "pool/pmdk_trial.h"

namespace perdure {
namespace {

constexpr std::array<char, 8> pmdk_signature{'P', 'M', 'E', 'M', 'O', 'B', 'J', '\0'};
constexpr const char* layout_name = "perdure";

/// The part of libpmemobj's pool descriptor (format 6, second page of the file) that is checked
/// before libpmemobj sees the file, because it trusts most of it.
struct Descriptor {
  std::array<char, 1024> layout;
  std::uint64_t lanes_offset;
  std::uint64_t lanes;
  std::uint64_t heap_offset;
  std::array<std::uint64_t, 124> unused;
  std::uint64_t checksum;
  std::uint64_t root_offset;
  std::uint64_t run_id;
  std::uint64_t root_bytes;
  std::uint64_t conversion_flags;
  std::uint64_t heap_bytes;
};
constexpr std::uint64_t descriptor_offset = 4096;
static_assert(offsetof(Descriptor, root_offset) == 2048);

// The name on media may have no end.
bool has_our_layout(const Descriptor& descriptor) noexcept {
  return std::memcmp(descriptor.layout.data(), layout_name, std::strlen(layout_name) + 1) == 0;
}

// libpmemobj flushes with instructions only where it believes the medium to be persistent, and
// calls msync everywhere else, which costs microseconds a store. Our own flushes are instructions
// on every medium, so its must be too, or figures of tmpfs pools would mean nothing. A user's own
// setting of the variable is respected. Asked for as PMDK asks: under simulation it is set for PMDK
// whatever the shell says, and a larger environment would move what the process allocates after it.
void treat_as_persistent(Medium medium) {
  if (medium != Medium::tmpfs && medium != Medium::page_cache) return;
  if (secure_getenv("PMEM_IS_PMEM_FORCE") == nullptr) setenv("PMEM_IS_PMEM_FORCE", "1", 0);
}

Error open_error(int reason, const std::string& path) {
  if (reason == EAGAIN || reason == EWOULDBLOCK)
    return {ErrorCode::busy, "another process uses the pool", path,
            "wait until it ends, or name another pool"};
  std::string text = pmemobj_errormsg();
  for (char& c : text)
    if (c == '\n') c = ' ';
  if (reason == EINVAL || reason == ENOTSUP) return corrupt_pool(path, "libpmemobj: " + text);
  return {ErrorCode::io, "libpmemobj: " + text, path, "check the path and its permissions"};
}

bool read_at(const File& file, std::uint64_t offset, void* to, std::size_t bytes) {
  return pread(file.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// All that can be said about the file without libpmemobj, whose own checks are few.
Result<void> check_file(const File& file, const std::string& path, unsigned parts) {
  const Result<std::uint64_t> available = size_of(file, path);
  if (!available) return available.error();
  Descriptor descriptor{};
  const bool whole = read_at(file, descriptor_offset, &descriptor, sizeof descriptor);
  if (!whole || *available < Pool::min_pool_bytes)
    return Error{ErrorCode::truncated, "the file is shorter than any pool", path,
                 "restore the file from a copy, or create a new pool"};
  if (!has_our_layout(descriptor))
    return Error{ErrorCode::foreign, "a libpmemobj pool, but not of perdure", path,
                 "check the path; Pool::create makes a pool at another"};
  PoolHeader header;
  if (descriptor.root_bytes < sizeof header || descriptor.root_offset % 8 != 0)
    return corrupt_pool(path, "the pool has no root object");
  if (!read_at(file, descriptor.root_offset, &header, sizeof header)) {
    if (descriptor.root_offset >= *available)
      return Error{ErrorCode::truncated, "the pool ends before its header", path,
                   "restore the file from a copy, or create a new pool"};
    return corrupt_pool(path, "the pool's root object lies outside the pool");
  }
  if (header.magic != pool_magic)
    return corrupt_pool(path, "the pool's root object is no pool header");
  if (const Result<void> valid = check_header(header, *available, path); !valid)
    return valid.error();
  if (header.heap_kind != static_cast<std::uint8_t>(HeapKind::pmdk) ||
      header.heap_offset != descriptor.heap_offset || header.pool_bytes != *available ||
      descriptor.heap_bytes > header.pool_bytes - header.heap_offset)
    return corrupt_pool(path, "the pool header contradicts libpmemobj's");
  return check_first_part(header, parts, path);
}

}  // namespace

bool PmdkPool::is_signature(const std::byte* page) noexcept {
  return std::memcmp(page, pmdk_signature.data(), pmdk_signature.size()) == 0;
}

bool PmdkPool::is_ours(const File& file) noexcept {
  std::array<std::byte, pmdk_signature.size()> start{};
  Descriptor descriptor{};
  if (!read_at(file, 0, start.data(), start.size()) ||
      !read_at(file, descriptor_offset, &descriptor, sizeof descriptor))
    return false;
  std::array<char, pool_magic.size()> magic{};
  const bool signature = is_signature(start.data());
  const bool layout = has_our_layout(descriptor);
  const bool header =
      read_at(file, descriptor.root_offset, magic.data(), magic.size()) && magic == pool_magic;
  return (signature && layout) || (signature && header) || (layout && header);
}

Result<void> PmdkPool::adopt(PMEMobjpool* objects, const PoolOptions& options,
                             std::uint64_t bytes) {
  objects_ = objects;
  base_ = reinterpret_cast<std::byte*>(objects);
  set_size(bytes);
  pm::note_persistent(base_, bytes, true);
  path_ = options.path;
  heap_kind_ = HeapKind::pmdk;
  const PMEMoid root = pmemobj_root(objects, sizeof(PoolHeader));
  if (root.off == 0) return open_error(errno, options.path);
  header_ = at<PoolHeader>(root.off);
  const std::uint64_t heap_offset = at<Descriptor>(descriptor_offset)->heap_offset;
  Result<std::unique_ptr<PmdkHeap>> heap = PmdkHeap::attach(objects, heap_offset, bytes);
  if (!heap) return heap.error();
  heap_ = std::move(*heap);
  return {};
}

Result<std::unique_ptr<Pool>> PmdkPool::create(const PoolOptions& options) {
  const std::uint64_t bytes = (options.bytes + 4095) / 4096 * 4096;
  Result<NewFile> made = NewFile::create(options.path, bytes, options.overwrite);
  if (!made) return made.error();
  const Result<ReplacedParts> old = ReplacedParts::of(options.path, 1);
  if (!old) return old.error();
  if (made->needs_room()) {
    if (const Result<void> disowned = old->disown(); !disowned) return disowned.error();
    if (const Result<void> gone = made->withdraw_replaced(); !gone) return gone.error();
  }
  const Medium medium = medium_of(made->file().get());
  if (const Result<void> room = made->fill(options.huge_pages && medium == Medium::tmpfs); !room)
    return room.error();
  treat_as_persistent(medium);
  PMEMobjpool* objects = pmemobj_create(made->interim_path().c_str(), layout_name, 0, 0644);
  if (objects == nullptr) return open_error(errno, options.path);
  std::unique_ptr<PmdkPool> pool(new PmdkPool);
  pool->medium_ = medium;
  if (const Result<void> adopted = pool->adopt(objects, options, bytes); !adopted)
    return adopted.error();
  if (options.huge_pages) request_huge_pages(pool->base_, bytes, medium);
  if (options.prefault) prefault(pool->base_, bytes);
  write_header(*pool->header_, HeapKind::pmdk, bytes,
               pool->at<Descriptor>(descriptor_offset)->heap_offset);
  if (const Result<void> started = pool->start_new(); !started) return started.error();
  if (const Result<void> disowned = old->disown(); !disowned) return disowned.error();
  if (const Result<File> named = made->publish(); !named) return named.error();
  old->remove_surplus();
  return std::unique_ptr<Pool>(std::move(pool));
}

Result<std::unique_ptr<Pool>> PmdkPool::open(const PoolOptions& options, File file) {
  if (const Result<void> locked = lock_file(file, options.path); !locked) return locked.error();
  if (const Result<void> valid = check_file(file, options.path, options.parts); !valid)
    return valid.error();
  const Result<std::uint64_t> bytes = size_of(file, options.path);
  if (!bytes) return bytes.error();
  if (const Result<void> room = allocate_blocks(file, *bytes, options.path); !room)
    return room.error();
  const Medium medium = medium_of(file.get());
  file = File();  // libpmemobj takes the same lock for itself
  treat_as_persistent(medium);
  if (const Result<void> tried = try_pmdk_pool(options.path, layout_name, *bytes); !tried)
    return tried.error();
  PMEMobjpool* objects = open_when_unlocked(options.path.c_str(), layout_name);
  if (objects == nullptr) return open_error(errno, options.path);
  std::unique_ptr<PmdkPool> pool(new PmdkPool);
  pool->medium_ = medium;
  if (const Result<void> adopted = pool->adopt(objects, options, *bytes); !adopted)
    return adopted.error();
  if (options.huge_pages) request_huge_pages(pool->base_, *bytes, medium);
  if (const Result<void> started = pool->start_existing(); !started) return started.error();
  return std::unique_ptr<Pool>(std::move(pool));
}

PmdkPool::~PmdkPool() {
  heap_.reset();
  if (base_ != nullptr) pm::note_not_persistent(base_);
  if (objects_ != nullptr) pmemobj_close(objects_);
}

Result<void> PmdkPool::close() {
  if (base_ == nullptr) return {};
  sync_page_cache(base_, bytes(), medium_);
  finish();
  heap_.reset();
  pm::note_not_persistent(base_);
  pmemobj_close(objects_);
  objects_ = nullptr;
  base_ = nullptr;
  header_ = nullptr;
  ready_ = false;
  return {};
}

}  // namespace perdure
