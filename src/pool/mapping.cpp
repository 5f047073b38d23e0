#include "pool/mapping.h"

#include <fcntl.h>
#include <libpmem2.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace perdure {
namespace {

// Newer than the headers of the distributions we build on; older kernels answer EINVAL.
constexpr int advise_populate_write = 23;
constexpr int advise_collapse = 25;
constexpr std::uint64_t page_bytes = 4096;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

template <auto Delete>
struct Pmem2Delete {
  template <class T>
  void operator()(T* object) const noexcept {
    Delete(&object);
  }
};
using Pmem2Config = std::unique_ptr<pmem2_config, Pmem2Delete<pmem2_config_delete>>;
using Pmem2Source = std::unique_ptr<pmem2_source, Pmem2Delete<pmem2_source_delete>>;

// Runs `work(first, last)` over slices of [0, units) on as many threads as help.
template <class Work>
void in_slices(std::uint64_t units, const Work& work) {
  constexpr std::uint64_t worth_a_thread = 32;
  const std::uint64_t threads = std::clamp<std::uint64_t>(
      std::min<std::uint64_t>(std::thread::hardware_concurrency(), units / worth_a_thread), 1, 8);
  std::vector<std::jthread> helpers;
  const auto slice = [&](std::uint64_t t) { work(units * t / threads, units * (t + 1) / threads); };
  for (std::uint64_t t = 1; t < threads; ++t) {
    try {
      helpers.emplace_back(slice, t);
    } catch (const std::system_error&) {
      slice(t);  // the system gives no more threads
    }
  }
  slice(0);
}

Error mapping_error(const std::string& path, const char* reason) {
  return {ErrorCode::io, std::string("cannot map: ") + reason, path,
          "check that the address range is free and the file system supports shared mappings"};
}

// Memory at `address`, or aligned to a huge page where that is 0; MAP_FAILED, with errno, if none.
void* map_anonymous(std::uint64_t bytes, std::uint64_t address) {
  const std::uint64_t slack = address == 0 ? huge_page_size : 0;
  const int fixed = address == 0 ? 0 : MAP_FIXED_NOREPLACE;
  void* const memory = mmap(reinterpret_cast<void*>(address), bytes + slack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (memory == MAP_FAILED || address != 0) return memory;
  const auto start = reinterpret_cast<std::uint64_t>(memory);
  const std::uint64_t aligned = round_up(start, huge_page_size);
  if (aligned > start) munmap(memory, aligned - start);
  if (const std::uint64_t tail = start + slack - aligned; tail > 0)
    munmap(reinterpret_cast<void*>(round_up(aligned + bytes, page_bytes)), tail);
  return reinterpret_cast<void*>(aligned);
}

// Writes to each page without changing it. Used where the kernel cannot populate.
void touch(std::byte* base, std::uint64_t bytes) noexcept {
  for (std::uint64_t at = 0; at < bytes; at += page_bytes)
    __atomic_fetch_or(reinterpret_cast<unsigned char*>(base + at), 0, __ATOMIC_RELAXED);
}

}  // namespace

Mapping::~Mapping() {
  if (map_ != nullptr) {
    pmem2_map_delete(&map_);
  } else if (base_ != nullptr) {
    munmap(base_, bytes_);
  }
  if (reservation_ != nullptr) pmem2_vm_reservation_delete(&reservation_);
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(map_, other.map_);
  std::swap(reservation_, other.reservation_);
  return *this;
}

// libpmem2 for DAX only. It tries MAP_FIXED|MAP_SYNC over a range that it has reserved and then
// again without MAP_SYNC; on a file system that knows MAP_SYNC but has no DAX below it (ext4 on a
// disk) the failed attempt leaves the range unmapped, and the second one replaces whatever another
// thread has mapped there in between.
Result<Mapping> Mapping::of_file(int file, std::uint64_t bytes, std::uint64_t address,
                                 const std::string& path) {
  const Medium medium = medium_of(file);
  const bool dax = medium == Medium::devdax || medium == Medium::fsdax;
  return dax ? of_dax_file(file, bytes, address, path) : of_cached_file(file, bytes, address, path);
}

Result<Mapping> Mapping::of_dax_file(int file, std::uint64_t bytes, std::uint64_t address,
                                     const std::string& path) {
  pmem2_config* raw_config = nullptr;
  pmem2_source* raw_source = nullptr;
  if (pmem2_config_new(&raw_config) != 0) return mapping_error(path, pmem2_errormsg());
  const Pmem2Config config(raw_config);
  if (pmem2_source_from_fd(&raw_source, file) != 0) return mapping_error(path, pmem2_errormsg());
  const Pmem2Source source(raw_source);
  // Left to itself libpmem2 aligns a mapping of 2 MiB or more for huge pages.
  Mapping mapping;
  if (address != 0 &&
      (pmem2_vm_reservation_new(&mapping.reservation_, reinterpret_cast<void*>(address),
                                round_up(bytes, huge_page_size)) != 0 ||
       pmem2_config_set_vm_reservation(config.get(), mapping.reservation_, 0) != 0))
    return mapping_error(path, pmem2_errormsg());
  if (pmem2_config_set_required_store_granularity(config.get(), PMEM2_GRANULARITY_PAGE) != 0 ||
      pmem2_config_set_length(config.get(), bytes) != 0 ||
      pmem2_map_new(&mapping.map_, config.get(), source.get()) != 0)
    return mapping_error(path, pmem2_errormsg());
  mapping.base_ = static_cast<std::byte*>(pmem2_map_get_address(mapping.map_));
  mapping.bytes_ = bytes;
  return mapping;
}

Result<Mapping> Mapping::of_cached_file(int file, std::uint64_t bytes, std::uint64_t address,
                                        const std::string& path) {
  void* const range = map_anonymous(bytes, address);
  if (range == MAP_FAILED) return mapping_error(path, std::strerror(errno));
  // After a failure the range is perhaps unmapped, and another's by now: not ours to give back.
  if (mmap(range, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
    return mapping_error(path, std::strerror(errno));
  return Mapping(range, bytes);
}

Result<Mapping> Mapping::anonymous(std::uint64_t bytes, std::uint64_t address) {
  void* const memory = map_anonymous(bytes, address);
  if (memory == MAP_FAILED)
    return Error{ErrorCode::out_of_space, std::string("cannot map memory: ") + std::strerror(errno),
                 "dram pool", "ask for a smaller pool"};
  return Mapping(memory, bytes);
}

AddressRange::~AddressRange() { release_to(end_); }

AddressRange::AddressRange(AddressRange&& other) noexcept { *this = std::move(other); }

AddressRange& AddressRange::operator=(AddressRange&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(held_, other.held_);
  std::swap(end_, other.end_);
  return *this;
}

Result<AddressRange> AddressRange::reserve(std::uint64_t bytes, std::uint64_t address,
                                           const std::string& path) {
  void* const memory = map_anonymous(bytes, address);
  if (memory == MAP_FAILED)
    return Error{ErrorCode::out_of_space,
                 std::string("cannot reserve addresses: ") + std::strerror(errno), path,
                 "ask for a smaller pool"};
  AddressRange range;
  range.address_ = range.held_ = reinterpret_cast<std::uint64_t>(memory);
  range.end_ = range.address_ + round_up(bytes, page_bytes);
  return range;
}

void AddressRange::release_to(std::uint64_t end) noexcept {
  end = std::min(end, end_);
  if (end <= held_) return;
  munmap(reinterpret_cast<void*>(held_), end - held_);
  held_ = end;
}

PreferredNode::PreferredNode(std::optional<unsigned> node) noexcept {
  std::array<unsigned long, words> wanted{};
  if (!node || *node >= bits ||
      syscall(SYS_get_mempolicy, &mode_, mask_.data(), bits, nullptr, 0) != 0)
    return;
  wanted[*node / word_bits] = 1UL << *node % word_bits;
  set_ = syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted.data(), bits) == 0;
}

PreferredNode::~PreferredNode() {
  if (set_) syscall(SYS_set_mempolicy, mode_, mask_.data(), bits);
}

// MADV_COLLAPSE gives tmpfs huge pages even where shmem_enabled says never, but only around a page
// that is present; one touched page for each huge one is enough, and four times cheaper than
// populating small pages first.
void request_huge_pages(std::byte* base, std::uint64_t bytes, Medium medium) {
  const auto start = reinterpret_cast<std::uint64_t>(base);
  const std::uint64_t first = round_up(start, huge_page_size);
  const std::uint64_t last = (start + bytes) / huge_page_size * huge_page_size;
  if (first >= last) return;
  auto* memory = reinterpret_cast<std::byte*>(first);
  madvise(memory, last - first, MADV_HUGEPAGE);
  if (medium != Medium::tmpfs) return;
  in_slices((last - first) / huge_page_size, [memory](std::uint64_t from, std::uint64_t to) {
    std::byte* slice = memory + from * huge_page_size;
    for (std::uint64_t page = 0; page < to - from; ++page) {
      const volatile std::byte* present = slice + page * huge_page_size;
      static_cast<void>(*present);
    }
    madvise(slice, (to - from) * huge_page_size, advise_collapse);
  });
}

void prefault(std::byte* base, std::uint64_t bytes) {
  in_slices(round_up(bytes, huge_page_size) / huge_page_size, [base, bytes](std::uint64_t from,
                                                                            std::uint64_t to) {
    std::byte* slice = base + from * huge_page_size;
    const std::uint64_t length = std::min(bytes, to * huge_page_size) - from * huge_page_size;
    if (madvise(slice, length, advise_populate_write) != 0) touch(slice, length);
  });
}

std::uint64_t huge_page_bytes(const std::byte* base, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uint64_t>(base);
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t total_kib = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    unsigned long kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      inside = from < begin + bytes && to > begin;
    } else if (inside && (std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kib) == 1 ||
                          std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &kib) == 1 ||
                          std::sscanf(line.c_str(), "FilePmdMapped: %lu kB", &kib) == 1)) {
      total_kib += kib;
    }
  }
  return std::min(total_kib * 1024, bytes);
}

Medium medium_of(int file) {
  struct stat status {};
  struct statfs system {};
  if (fstat(file, &status) == 0 && S_ISCHR(status.st_mode)) return Medium::devdax;
  if (fstatfs(file, &system) == 0 && system.f_type == TMPFS_MAGIC) return Medium::tmpfs;
  if (fstat(file, &status) == 0 && status.st_size > 0) {
    void* trial = mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, file, 0);
    if (trial != MAP_FAILED) {
      munmap(trial, page_bytes);
      return Medium::fsdax;
    }
  }
  return Medium::page_cache;
}

void sync_page_cache(const std::byte* base, std::uint64_t bytes, Medium medium) {
  if (medium != Medium::page_cache) return;
  const auto address = reinterpret_cast<std::uint64_t>(base);
  const std::uint64_t start = address / page_bytes * page_bytes;
  msync(reinterpret_cast<void*>(start), address + bytes - start, MS_SYNC);
}

}  // namespace perdure
