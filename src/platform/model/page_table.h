// PageTable: what each physical page is, and which of its lines a remote core has requested.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/rng.h"
#include "platform/model/cache_tags.h"
#include "platform/model/machine.h"

namespace perdure::platform {

class PageTable {
 public:
  struct Page {
    std::uint64_t remote_lines = 0;  ///< memory directory: one bit per line of 64 B
    PageHome home;
  };

  /// A page that was never placed is DRAM of node 0.
  [[nodiscard]] Page& of_line(LineAddress line) { return of_page(line >> 6); }

  [[nodiscard]] Page& of_page(std::uint64_t page) {
    const std::uint64_t chunk = page >> chunk_bits;
    if (chunk != last_chunk_) {
      last_ = find(chunk);
      last_chunk_ = chunk;
    }
    return (*last_)[page & (chunk_pages - 1)];
  }

 private:
  static constexpr unsigned chunk_bits = 12;
  static constexpr std::uint64_t chunk_pages = 1 << chunk_bits;
  using Chunk = std::array<Page, chunk_pages>;
  struct Slot {
    std::uint64_t chunk = ~std::uint64_t{0};
    std::unique_ptr<Chunk> pages;
  };

  Chunk* find(std::uint64_t chunk) {
    if (chunks_ * 2 >= slots_.size()) grow();
    std::size_t at = mix64(chunk) & (slots_.size() - 1);
    while (slots_[at].pages && slots_[at].chunk != chunk) at = (at + 1) & (slots_.size() - 1);
    if (!slots_[at].pages) {
      slots_[at] = {chunk, std::make_unique<Chunk>()};
      ++chunks_;
    }
    return slots_[at].pages.get();
  }

  void grow() {
    std::vector<Slot> wider(slots_.size() * 2);
    for (Slot& slot : slots_) {
      if (!slot.pages) continue;
      std::size_t at = mix64(slot.chunk) & (wider.size() - 1);
      while (wider[at].pages) at = (at + 1) & (wider.size() - 1);
      wider[at] = std::move(slot);
    }
    slots_.swap(wider);
  }

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  std::size_t chunks_ = 0;
  std::uint64_t last_chunk_ = ~std::uint64_t{0};
  Chunk* last_ = nullptr;
};

}  // namespace perdure::platform
