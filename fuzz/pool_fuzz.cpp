// Opens arbitrary bytes as a pool. Whatever the file holds: no crash, no hang, one clear line, and
// a file that is refused stays as it was (P4).
//
// The first byte picks how the rest becomes a file:
//   even  the bytes as they are
//   odd   they overwrite a whole pool's header, from byte 0 or, with bit 5, from the clean word on;
//         then further bits repair it: 1 the header's checksum, 2 the roots', 3 magic and size.
//         Bit 4 leaves the file as short as its header.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "pool/header.h"
#include "pool/pool.h"

namespace {

using perdure::Pool;
using perdure::PoolHeader;

constexpr std::uint64_t file_bytes = Pool::min_pool_bytes;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "pool_fuzz: %s\n", what);
  std::abort();
}

// A file in memory that the library opens through a path.
struct MemoryFile {
  int descriptor = memfd_create("pool_fuzz", MFD_CLOEXEC);
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  ~MemoryFile() { close(descriptor); }
};

std::vector<std::uint8_t> first_page_from(std::uint8_t mode, const std::uint8_t* data,
                                          std::size_t size) {
  PoolHeader header;
  perdure::write_header(header, perdure::HeapKind::slab, file_bytes, perdure::pool_header_bytes);
  const std::size_t from = (mode & 32) != 0 ? offsetof(PoolHeader, clean) : 0;
  std::memcpy(reinterpret_cast<std::byte*>(&header) + from, data,
              std::min(size, sizeof header - from));
  if ((mode & 8) != 0) {
    header.magic = perdure::pool_magic;
    header.pool_bytes = file_bytes;
  }
  if ((mode & 4) != 0) {
    for (PoolHeader::Root& root : header.root) {
      const std::uint64_t offset = root.offset() % (2 * file_bytes);
      if (offset == 0) continue;
      root.commit = PoolHeader::Root::commit_tag | offset;
      root.unused = 0;
      root.checksum = root.checksum_with(root.commit);
    }
    header.clean = (header.clean & 1) != 0 ? PoolHeader::clean_word : 0;
    header.unused_line.fill(0);
    header.unused_end.fill(0);
  }
  if ((mode & 2) != 0) header.checksum = header.compute_checksum();
  std::vector<std::uint8_t> page(sizeof header);
  std::memcpy(page.data(), &header, sizeof header);
  return page;
}

// What the owners of roots do in recovery, with whatever offsets the pool contains.
void walk(Pool& pool, const std::uint8_t* data, std::size_t size) {
  const std::vector<perdure::PoolRoot> roots = pool.roots();
  require(roots.empty() == pool.ready(), "ready before the roots have reported");
  for (const perdure::PoolRoot& root : roots) {
    require(pool.contains(root.offset, root.bytes), "a root outside the pool");
    require(pool.heap().is_marked(root.offset), "a root that is not marked");
  }
  for (std::size_t at = 0; !pool.ready() && at + 12 <= size; at += 12) {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::memcpy(&offset, data + at, sizeof offset);
    std::memcpy(&bytes, data + at + 8, sizeof bytes);
    offset = offset % (2 * file_bytes) / 16 * 16;
    bytes %= 2U << 20;
    if (!pool.heap().mark(offset, bytes)) continue;
    require(pool.contains(offset, bytes), "a mark outside the pool");
    require(!pool.heap().mark(offset, bytes), "the same mark twice");
  }
  for (const perdure::PoolRoot& root : roots)
    require(pool.root_recovered(root.name).ok(), "a root that is not known by its name");
  require(pool.ready(), "not ready after every root has reported");
  for (int i = 0; i < 8; ++i) {
    perdure::Reservation block = pool.heap().reserve(std::size_t{1} << (i * 2 + 3));
    if (!block) continue;
    std::memset(pool.at<std::byte>(block.offset), 0xab, block.bytes);
    pool.heap().cancel(block);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t mode = data[0];
  std::vector<std::uint8_t> page(data + 1, data + size);
  if ((mode & 1) != 0) page = first_page_from(mode, data + 1, size - 1);

  const MemoryFile file;
  require(pwrite(file.descriptor, page.data(), page.size(), 0) == static_cast<ssize_t>(page.size()),
          "cannot write the file");
  if ((mode & 1) != 0 && (mode & 16) == 0)
    require(ftruncate(file.descriptor, file_bytes) == 0, "cannot size the file");

  perdure::PoolOptions options;
  options.path = file.path;
  options.huge_pages = false;
  options.prefault = false;
  auto pool = Pool::open(options);
  if (pool.ok()) {
    walk(**pool, page.data(), page.size());
    require((*pool)->close().ok(), "cannot close");
    return 0;
  }
  const std::string line = pool.error().line();
  require(!line.empty() && line.find('\n') == std::string::npos, "the error is not one line");
  std::vector<std::uint8_t> after(page.size());
  require(
      pread(file.descriptor, after.data(), after.size(), 0) == static_cast<ssize_t>(after.size()),
      "cannot read the file");
  require(after == page, "a refused file was written to");
  return 0;
}
