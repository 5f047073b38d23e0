#include "platform/runtime/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "platform/runtime/simulated_thread.h"

namespace perdure::platform::runtime {

void AddressSpace::start(Machine* machine, PageHome ordinary, PageHome persistent) noexcept {
  machine_ = machine;
  ordinary_ = ordinary;
  persistent_ = persistent;
  for (const Region& region : regions_) count(region);
}

std::uint32_t& AddressSpace::entry(std::uintptr_t page) {
  std::uint32_t*& table = directory_[(page >> table_bits) & directory_mask];
  if (table == nullptr) {
    void* memory = mmap(nullptr, sizeof(std::uint32_t) << table_bits, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    table = static_cast<std::uint32_t*>(memory);
  }
  return table[page & table_mask];
}

PhysicalAddress AddressSpace::first_touch(std::uintptr_t host) {
  const std::uintptr_t page = host >> page_bits;
  std::uint32_t physical = 0;
  PageHome home = ordinary_;
  const auto* at = reinterpret_cast<const std::byte*>(page << page_bits);
  for (const Region& region : regions_) {
    // A region may begin inside a page, which then has the region's home from its first touch on.
    const auto base = reinterpret_cast<std::uintptr_t>(region.base) >> page_bits;
    if (page < base || at >= region.base + region.bytes) continue;
    physical = region.first_page + static_cast<std::uint32_t>(page - base);
    home = region.home.memory == MemoryKind::pm ? persistent_ : ordinary_;
    if (region.home.node != any_node) home.node = region.home.node;
  }
  if (physical == 0) physical = next_page_++;
  // The machine's tables grow here: that is no access of the simulated thread.
  SimulatedThread* const thread = std::exchange(current, nullptr);
  machine_->place_page(physical, home);
  current = thread;
  entry(page) = physical;
  return PhysicalAddress{physical} << page_bits | (host & page_mask);
}

// What was touched before under these addresses was other memory.
void AddressSpace::forget(const Region& region) {
  for (std::uint64_t at = 0; at < region.bytes; at += page_mask + 1) {
    const auto page = (reinterpret_cast<std::uintptr_t>(region.base) + at) >> page_bits;
    if (directory_[(page >> table_bits) & directory_mask] != nullptr) entry(page) = 0;
  }
}

void AddressSpace::add(const Region& region) {
  const bool known =
      std::ranges::any_of(regions_, [&](const Region& other) { return other.base == region.base; });
  if (known || region.bytes == 0) return;
  Region placed = region;
  placed.first_page = next_region_page_;
  // Whole GiB, so that interleaving starts anew with every region.
  const std::uint64_t pages = (region.bytes >> page_bits) + 2;
  next_region_page_ +=
      static_cast<std::uint32_t>((pages + table_mask) & ~std::uint64_t{table_mask});
  regions_.push_back(placed);
  forget(placed);
  count(placed);
}

void AddressSpace::count(const Region& region) noexcept {
  if (machine_ == nullptr || region.part == pm::PoolPart::none) return;
  const std::uint64_t pages = (region.bytes >> page_bits) + 1;
  machine_->count_part(region.part, region.first_page, region.first_page + pages);
}

void AddressSpace::remove(const void* base) {
  const auto found = std::ranges::find(regions_, base, &Region::base);
  if (found == regions_.end()) return;
  forget(*found);
  regions_.erase(found);
}

}  // namespace perdure::platform::runtime
