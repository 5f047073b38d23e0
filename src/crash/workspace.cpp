#include "crash/workspace.h"

#include <malloc.h>

#include <cstring>

#include "core/rng.h"

namespace perdure::crash {

Workspace::Workspace(std::size_t pool_bytes, HeapKind heap)
    : live_(pool_bytes, heap == HeapKind::pmdk),
      image_(pool_bytes, heap == HeapKind::pmdk),
      watch_(image_, heap == HeapKind::pmdk) {
  if (heap == HeapKind::pmdk) ready_ = make_pmdk_pool(live_);
  // A run takes some megabytes and frees them. Given back to the system, they would have to be
  // mapped again for the next one.
  constexpr int kept_bytes = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kept_bytes);
  mallopt(M_TRIM_THRESHOLD, 8 * kept_bytes);
}

std::span<const std::byte> Workspace::garbage(bool small) {
  constexpr std::uint64_t small_ones = 16;
  std::vector<std::byte>& kept = garbage_[small ? 1 : 0];
  if (!kept.empty()) return kept;
  kept.resize(live_.bytes());
  Rng garbage(1, 7);
  for (std::size_t i = 0; i + word_bytes <= kept.size(); i += word_bytes) {
    const std::uint64_t word = small ? garbage.below(small_ones) : garbage();
    std::memcpy(kept.data() + i, &word, word_bytes);
  }
  return kept;
}

}  // namespace perdure::crash
