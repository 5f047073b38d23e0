#include "pool/pmdk_pool.h"

#include <libpmemobj.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "pm/persist.h"
#include "pool/leftovers.h"
#include "pool/mapping.h"
#include "pool/new_file.h"
#include "pool/pmdk_file.h"
#include "pool/pmdk_heap.h"
#include "pool/pmdk_trial.h"

namespace perdure {
namespace {

// libpmemobj flushes with instructions only where it believes the medium to be persistent, and
// calls msync everywhere else, which costs microseconds a store. Our own flushes are instructions
// on every medium, so its must be too, or figures of tmpfs pools would mean nothing. A user's own
// setting of the variable is respected. Read by the same call as PMDK's: under simulation it is set
// for PMDK always, and a larger environment would move what the process allocates after it.
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

}  // namespace

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
  const std::uint64_t heap_offset = at<PmdkDescriptor>(PmdkDescriptor::offset)->heap_offset;
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
  PMEMobjpool* objects = pmemobj_create(made->interim_path().c_str(), pmdk_layout_name, 0, 0644);
  if (objects == nullptr) return open_error(errno, options.path);
  std::unique_ptr<PmdkPool> pool(new PmdkPool);
  pool->medium_ = medium;
  if (const Result<void> adopted = pool->adopt(objects, options, bytes); !adopted)
    return adopted.error();
  if (options.huge_pages) request_huge_pages(pool->base_, bytes, medium);
  if (options.prefault) prefault(pool->base_, bytes);
  write_header(*pool->header_, HeapKind::pmdk, bytes,
               pool->at<PmdkDescriptor>(PmdkDescriptor::offset)->heap_offset);
  if (const Result<void> started = pool->start_new(); !started) return started.error();
  if (const Result<void> disowned = old->disown(); !disowned) return disowned.error();
  if (const Result<File> named = made->publish(); !named) return named.error();
  old->remove_surplus();
  return std::unique_ptr<Pool>(std::move(pool));
}

Result<std::unique_ptr<Pool>> PmdkPool::open(const PoolOptions& options, File file) {
  if (const Result<void> locked = lock_file(file, options.path); !locked) return locked.error();
  if (const Result<void> valid = check_pmdk_file(file, options.path, options.parts); !valid)
    return valid.error();
  const Result<std::uint64_t> bytes = size_of(file, options.path);
  if (!bytes) return bytes.error();
  if (const Result<void> room = allocate_blocks(file, *bytes, options.path); !room)
    return room.error();
  const Medium medium = medium_of(file.get());
  file = File();  // libpmemobj takes the same lock for itself
  treat_as_persistent(medium);
  if (const Result<void> tried = try_pmdk_pool(options.path, pmdk_layout_name, *bytes); !tried)
    return tried.error();
  PMEMobjpool* objects = open_when_unlocked(options.path.c_str(), pmdk_layout_name);
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
