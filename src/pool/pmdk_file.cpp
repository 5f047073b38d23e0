#include "pool/pmdk_file.h"

#include <unistd.h>

#include <cstring>

#include "pool/header.h"

namespace perdure {
namespace {

constexpr std::array<char, 8> pmdk_signature{'P', 'M', 'E', 'M', 'O', 'B', 'J', '\0'};

// The name on media may have no end.
bool has_our_layout(const PmdkDescriptor& descriptor) noexcept {
  return std::memcmp(descriptor.layout.data(), pmdk_layout_name,
                     std::strlen(pmdk_layout_name) + 1) == 0;
}

bool read_at(const File& file, std::uint64_t offset, void* to, std::size_t bytes) {
  return pread(file.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

}  // namespace

bool is_pmdk_signature(const std::byte* page) noexcept {
  return std::memcmp(page, pmdk_signature.data(), pmdk_signature.size()) == 0;
}

bool is_our_pmdk_file(const File& file) noexcept {
  std::array<std::byte, pmdk_signature.size()> start{};
  PmdkDescriptor descriptor{};
  if (!read_at(file, 0, start.data(), start.size()) ||
      !read_at(file, PmdkDescriptor::offset, &descriptor, sizeof descriptor))
    return false;
  std::array<char, pool_magic.size()> magic{};
  const bool signature = is_pmdk_signature(start.data());
  const bool layout = has_our_layout(descriptor);
  const bool header =
      read_at(file, descriptor.root_offset, magic.data(), magic.size()) && magic == pool_magic;
  return (signature && layout) || (signature && header) || (layout && header);
}

Result<void> check_pmdk_file(const File& file, const std::string& path, unsigned parts) {
  const Result<std::uint64_t> available = size_of(file, path);
  if (!available) return available.error();
  PmdkDescriptor descriptor{};
  const bool whole = read_at(file, PmdkDescriptor::offset, &descriptor, sizeof descriptor);
  if (!whole || *available < PoolLimits::min_pool_bytes)
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

}  // namespace perdure
