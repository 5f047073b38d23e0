#include "pool/pool.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "pool/file_pool.h"
#include "pool/header.h"
#include "pool/memkind_pool.h"
#include "pool/pmdk_pool.h"

namespace perdure {

const char* name_of(HeapKind kind) noexcept {
  switch (kind) {
    case HeapKind::pmdk:
      return "pmdk";
    case HeapKind::slab:
      return "slab";
    case HeapKind::dram:
      return "dram";
    case HeapKind::memkind:
      return "memkind";
  }
  return "?";
}

const char* name_of(Medium medium) noexcept {
  switch (medium) {
    case Medium::devdax:
      return "devdax";
    case Medium::fsdax:
      return "fsdax";
    case Medium::tmpfs:
      return "tmpfs";
    case Medium::page_cache:
      return "page_cache";
    case Medium::anonymous:
      return "anonymous";
  }
  return "?";
}

Result<std::unique_ptr<Pool>> Pool::create(const PoolOptions& options) {
  constexpr std::uint64_t max_pool_bytes = std::uint64_t{1} << 47;  // what fits an address space
  if (options.bytes < min_pool_bytes || options.bytes > max_pool_bytes)
    return Error{ErrorCode::usage,
                 "a pool of " + std::to_string(options.bytes) + " bytes is too " +
                     (options.bytes < min_pool_bytes ? "small" : "large"),
                 options.path, "ask for at least " + std::to_string(min_pool_bytes >> 20) + " MiB"};
  switch (options.heap) {
    case HeapKind::pmdk:
      return PmdkPool::create(options);
    case HeapKind::slab:
      return FilePool::create(options);
    case HeapKind::memkind:
      return MemkindPool::create(options);
    case HeapKind::dram:
      break;
  }
  return FilePool::create_in_memory(options);
}

Result<std::unique_ptr<Pool>> Pool::open(const PoolOptions& options) {
  Result<File> file = open_file(options.path);
  if (!file) return file.error();
  alignas(8) std::byte page[pool_header_bytes];
  if (const Result<void> read = read_first_page(*file, options.path, page); !read)
    return read.error();
  if (std::memcmp(page, pool_magic.data(), pool_magic.size()) == 0)
    return FilePool::open(options, std::move(*file));
  if (PmdkPool::is_signature(page)) return PmdkPool::open(options, std::move(*file));
  return foreign_error(options.path);
}

Result<std::unique_ptr<Pool>> Pool::create_in(std::span<std::byte> memory) {
  return FilePool::create_in(memory);
}

Result<std::unique_ptr<Pool>> Pool::open_in(std::span<std::byte> memory) {
  return FilePool::open_in(memory);
}

}  // namespace perdure
