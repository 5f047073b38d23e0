#include "index/pactree/order_cache.h"

#include <sys/mman.h>

#include <algorithm>

namespace perdure::pactree {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

}  // namespace

OrderCache::OrderCache(std::uint64_t pool_bytes, std::size_t node_bytes, bool huge_pages) noexcept
    : node_bytes_(node_bytes), mapped_bytes_((pool_bytes / node_bytes + 1) * sizeof(Line)) {
  void* const mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return;
  // A smaller one is held by the caches for translations.
  if (huge_pages && mapped_bytes_ >= 4 * huge_page_bytes)
    madvise(mapped, mapped_bytes_, MADV_HUGEPAGE);
  lines_ = static_cast<Line*>(mapped);
}

OrderCache::~OrderCache() {
  if (lines_ != nullptr) munmap(lines_, mapped_bytes_);
}

bool OrderCache::find(std::uint64_t node, std::uint64_t word,
                      std::span<std::uint8_t> order) const noexcept {
  if (lines_ == nullptr) return false;
  const Line& line = line_of(node);
  if (line.version.load(std::memory_order_acquire) != known_at(word)) return false;
  for (unsigned i = 0; i * slots_a_word < order.size(); ++i) {
    std::uint64_t code = line.code[i].load(std::memory_order_acquire);
    const std::size_t end = std::min<std::size_t>(order.size(), (i + 1) * slots_a_word);
    for (std::size_t r = i * slots_a_word; r < end; ++r, code >>= slot_bits)
      order[r] = static_cast<std::uint8_t>(code & ((1U << slot_bits) - 1));
  }
  return line.version.load(std::memory_order_relaxed) == known_at(word);
}

void OrderCache::keep(std::uint64_t node, std::uint64_t word,
                      std::span<const std::uint8_t> order) noexcept {
  if (lines_ == nullptr) return;
  Line& line = line_of(node);
  std::uint64_t seen = line.version.load(std::memory_order_relaxed);
  const bool is_known = (seen & 1) != 0;
  if (seen == filling || (is_known && seen >= known_at(word))) return;
  if (!line.version.compare_exchange_strong(seen, filling, std::memory_order_acq_rel,
                                            std::memory_order_relaxed))
    return;
  if (seen == untouched) filled_.fetch_add(1, std::memory_order_relaxed);
  // Released, so that whoever reads one of these sees `filling`, too.
  for (unsigned i = 0; i * slots_a_word < order.size(); ++i) {
    std::uint64_t code = 0;
    const std::size_t end = std::min<std::size_t>(order.size(), (i + 1) * slots_a_word);
    for (std::size_t r = end; r-- > i * slots_a_word;) code = code << slot_bits | order[r];
    line.code[i].store(code, std::memory_order_release);
  }
  line.version.store(known_at(word), std::memory_order_release);
}

}  // namespace perdure::pactree
