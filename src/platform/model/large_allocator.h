// LargeAllocator: memory for the model's tables, which are read at random: huge pages where the
// system gives them, so that a look-up misses the host's TLB less often; and whole lines.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace perdure::platform {

template <class T>
struct LargeAllocator {
  using value_type = T;
  static constexpr std::size_t line_bytes = 64;
  static constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

  LargeAllocator() = default;
  template <class U>
  explicit LargeAllocator(const LargeAllocator<U>&) noexcept {}

  [[nodiscard]] T* allocate(std::size_t count) {
    const std::size_t alignment = alignment_of(count);
    const std::size_t bytes = (count * sizeof(T) + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    if (alignment == huge_page_bytes) madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }

  template <class U>
  bool operator==(const LargeAllocator<U>&) const noexcept {
    return true;
  }

 private:
  [[nodiscard]] static std::size_t alignment_of(std::size_t count) noexcept {
    return count * sizeof(T) >= huge_page_bytes ? huge_page_bytes : line_bytes;
  }
};

}  // namespace perdure::platform
