// Creating and opening: the one place that knows every kind of pool.
#include <cstring>
#include <memory>

#include "pool/file_pool.h"
#include "pool/header.h"
#include "pool/leftovers.h"
#include "pool/memkind_pool.h"
#include "pool/pmdk_file.h"
#include "pool/pmdk_pool.h"
#include "pool/pool.h"

namespace perdure {
namespace {

Result<void> check_parts(const PoolOptions& options) {
  if (options.parts != 0 && options.parts <= Pool::max_parts) return {};
  return Error{ErrorCode::usage, "a pool of " + std::to_string(options.parts) + " parts",
               options.path, "ask for 1 to " + std::to_string(Pool::max_parts)};
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::create(const PoolOptions& options) {
  constexpr std::uint64_t max_pool_bytes = std::uint64_t{1} << 47;  // what fits an address space
  if (const Result<void> sane = check_parts(options); !sane) return sane.error();
  const std::uint64_t least_bytes = min_pool_bytes * options.parts;
  if (options.bytes < least_bytes || options.bytes > max_pool_bytes)
    return Error{ErrorCode::usage,
                 "a pool of " + std::to_string(options.bytes) + " bytes is too " +
                     (options.bytes < least_bytes ? "small" : "large"),
                 options.path, "ask for at least " + std::to_string(least_bytes >> 20) + " MiB"};
  const bool foreign_heap = options.heap == HeapKind::pmdk || options.heap == HeapKind::memkind;
  if (options.parts != 1 && foreign_heap)
    return Error{ErrorCode::unsupported,
                 std::string("a heap of ") + name_of(options.heap) + " lies in one file",
                 options.path, "give PoolOptions::heap slab, or one pool"};
  if (options.heap != HeapKind::dram) remove_leftovers(options.path);
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
  if (const Result<void> sane = check_parts(options); !sane) return sane.error();
  const std::string path = part_path(options.path, 0);
  Result<File> file = open_file(path);
  if (!file) return file.error();
  alignas(8) std::byte page[pool_header_bytes];
  if (const Result<void> read = read_first_page(*file, path, page); !read) return read.error();
  if (std::memcmp(page, pool_magic.data(), pool_magic.size()) == 0)
    return FilePool::open(options, std::move(*file));
  if (is_pmdk_signature(page)) return PmdkPool::open(options, std::move(*file));
  return foreign_error(path);
}

Result<std::unique_ptr<Pool>> Pool::create_in(std::span<std::byte> memory, unsigned parts) {
  return FilePool::create_in(memory, parts);
}

Result<std::unique_ptr<Pool>> Pool::open_in(std::span<std::byte> memory) {
  return FilePool::open_in(memory);
}

}  // namespace perdure
