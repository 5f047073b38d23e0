// StoreSizes: bytes stored into each counted part of a pool, by the size of the store that wrote
// them. A copy counts as one store of its whole length, however many instructions it takes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/model/counters.h"
#include "platform/runtime/address_space.h"

namespace perdure::platform::runtime {

class StoreSizes {
 public:
  void watch(const AddressSpace::Region& region) {
    if (region.part < most_counted_parts) watched_.push_back(region);
  }
  void forget(const void* base) {
    std::erase_if(watched_, [base](const auto& region) { return region.base == base; });
  }
  [[nodiscard]] bool any() const noexcept { return !watched_.empty(); }

  void count(const void* address, std::size_t bytes) noexcept {
    const auto* at = static_cast<const std::byte*>(address);
    for (const AddressSpace::Region& region : watched_)
      if (at >= region.base && at < region.base + region.bytes)
        stored_[region.part][class_of(bytes)] += bytes;
  }
  [[nodiscard]] const StoredBytes& stored() const noexcept { return stored_; }

 private:
  static std::size_t class_of(std::size_t bytes) noexcept {
    const std::size_t power = std::bit_width(bytes / smallest_store_class);
    return std::min(power, store_classes - 1);
  }

  std::vector<AddressSpace::Region> watched_;
  StoredBytes stored_{};
};

}  // namespace perdure::platform::runtime
