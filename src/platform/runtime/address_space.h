// AddressSpace: which physical page a host page is.
//
// Pages of DRAM are given out in the order of first touch, so nothing depends on where the host
// puts memory. A region (a mapped pool) is contiguous: page i of it is physical page first + i.
//
//   host page (35 bits) = directory index (17) | index in its table (18)
//   table entry         = physical page, 0: not touched yet
//
// Physical pages of DRAM are numbered from 1, those of regions from `first_region_page`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/model/machine.h"
#include "pm/pool_part.h"

namespace perdure::platform::runtime {

class AddressSpace {
 public:
  static constexpr std::uint32_t first_region_page = 1U << 30;

  /// Machine may be null while no simulation runs; pages are placed when they are first touched.
  void start(Machine* machine, PageHome ordinary, PageHome persistent) noexcept;

  [[nodiscard]] PhysicalAddress translate(const void* address) {
    const PhysicalAddress physical = translate_touched(address);
    if (physical == 0) [[unlikely]]
      return first_touch(reinterpret_cast<std::uintptr_t>(address));
    return physical;
  }
  /// 0: the page has not been touched.
  [[nodiscard]] PhysicalAddress translate_touched(const void* address) const noexcept {
    const auto host = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t page = host >> page_bits;
    const std::uint32_t* table = directory_[(page >> table_bits) & directory_mask];
    const std::uint32_t physical = table != nullptr ? table[page & table_mask] : 0;
    return physical == 0 ? 0 : PhysicalAddress{physical} << page_bits | (host & page_mask);
  }

  struct Region {
    const std::byte* base;
    std::uint64_t bytes;
    std::uint32_t first_page;
    PageHome home;
    bool pool;  ///< watched by the guard; offsets in pools count from the latest of them
    bool foreign_writes;
    unsigned part = pm::PoolPart::none;  ///< whose traffic is counted apart
  };

  /// A region whose home is on `any_node` lies on the node that the simulation's options say for
  /// its kind of memory; PM is what `start` was told it is.
  static constexpr unsigned any_node = pm::any_node;
  /// The same range again changes nothing.
  void add(const Region& region);
  void remove(const void* base);
  [[nodiscard]] const Region* pool_region(const void* address) const noexcept {
    const auto* at = static_cast<const std::byte*>(address);
    for (const Region& region : regions_)
      if (region.pool && at >= region.base && at < region.base + region.bytes) return &region;
    return nullptr;
  }
  [[nodiscard]] const std::vector<Region>& regions() const noexcept { return regions_; }

 private:
  static constexpr unsigned page_bits = 12;
  static constexpr unsigned table_bits = 18;
  static constexpr std::uintptr_t page_mask = (1U << page_bits) - 1;
  static constexpr std::uintptr_t table_mask = (1U << table_bits) - 1;
  static constexpr std::uintptr_t directory_mask = (1U << 17) - 1;

  void count(const Region& region) noexcept;
  [[nodiscard]] PhysicalAddress first_touch(std::uintptr_t host);
  void forget(const Region& region);
  [[nodiscard]] std::uint32_t& entry(std::uintptr_t page);

  Machine* machine_ = nullptr;
  PageHome ordinary_;
  PageHome persistent_{.memory = MemoryKind::pm, .node = 0};
  std::uint32_t next_page_ = 1;
  std::uint32_t next_region_page_ = first_region_page;
  std::vector<Region> regions_;
  std::array<std::uint32_t*, directory_mask + 1> directory_{};
};

}  // namespace perdure::platform::runtime
