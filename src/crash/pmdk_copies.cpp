// Pools of libpmemobj under exploration. It opens files only, and keeps state of a pool outside of
// it, so a crash state is written to a file without a name, opened copy-on-write, recovered and
// closed: what it wrote meanwhile is gone, hooked or not.
#include <libpmemobj.h>

#include <algorithm>
#include <cstring>

#include "crash/subject.h"
#include "pool/file.h"

namespace perdure::crash {
namespace {

Error refused(const char* what) {
  std::string text = pmemobj_errormsg();
  std::ranges::replace(text, '\n', ' ');
  return {ErrorCode::failed, std::string(what) + ": " + text, "libpmemobj", "use --heap slab"};
}

Result<void> set_globally(const char* name, int value) {
  if (pmemobj_ctl_set(nullptr, name, &value) != 0) return refused(name);
  return {};
}

// A thread that runs inside libpmemobj holds a lane, and every lane is set up anew at each opening:
// most of its cost with the thousand that a pool gets.
void keep_few_lanes(std::span<std::byte> pool) {
  constexpr std::size_t descriptor = 4096;  // the pool's second page, format 6
  constexpr std::size_t lanes = descriptor + 1032;
  constexpr std::size_t checksum = descriptor + 2040;
  constexpr std::uint64_t few = 16;
  std::memcpy(pool.data() + lanes, &few, sizeof few);
  const std::uint64_t none = 0;
  std::memcpy(pool.data() + checksum, &none, sizeof none);
  std::uint32_t low = 0;  // Fletcher's checksum, with zeros in its own place
  std::uint32_t high = 0;
  for (std::size_t at = descriptor; at < checksum + sizeof none; at += sizeof low) {
    std::uint32_t word = 0;
    std::memcpy(&word, pool.data() + at, sizeof word);
    low += word;
    high += low;
  }
  const std::uint64_t sum = std::uint64_t{high} << 32 | low;
  std::memcpy(pool.data() + checksum, &sum, sizeof sum);
}

Result<void> make_in(const Memory& memory) {
  PoolOptions options;
  options.path = memory_path;
  options.heap = HeapKind::pmdk;
  options.bytes = memory.bytes();
  options.huge_pages = false;
  options.prefault = false;
  auto pool = Pool::create(options);
  if (!pool) return pool.error();
  if ((*pool)->bytes() != memory.bytes())
    return Error{ErrorCode::failed, "the pool is larger than asked for", "libpmemobj", ""};
  std::memcpy(memory.base(), (*pool)->base(), memory.bytes());
  keep_few_lanes(memory.span());
  return {};
}

}  // namespace

Result<void> make_pmdk_pool(const Memory& memory) {
  // The counter of unsafe shutdowns is about devices, and asks the system for them at every
  // opening.
  if (const auto set = set_globally("sds.at_create", 0); !set) return set.error();
  if (const auto set = set_globally("copy_on_write.at_open", 0); !set) return set.error();
  if (const Result<void> made = make_in(memory); !made) return made.error();
  return set_globally("copy_on_write.at_open", 1);
}

void close_copy(const std::byte* base) {
  pmemobj_close(reinterpret_cast<PMEMobjpool*>(const_cast<std::byte*>(base)));
}

}  // namespace perdure::crash
