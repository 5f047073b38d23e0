// Arena: where simulated threads' `new` comes from.
//
// Which bytes share a line and a page must not depend on what the rest of the process has allocated
// (paths, environment, libraries of the host). So blocks come from a range of our own, by size
// class, each class from chunks of whole pages; a freed block is the next one given out.
//
//   chunk: 64 KiB, of one class; larger blocks have chunks of their own, in whole pages
//   byte  0          64
//        | Chunk     | block | block | ...
//
// Memory is not given back; the range is only reserved until it is touched.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace perdure::platform::runtime {

class Arena {
 public:
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment);
  void free(void* block) noexcept;
  [[nodiscard]] bool owns(const void* block) const noexcept {
    return base_ != nullptr &&
           reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(base_) <
               reserved_bytes;
  }

 private:
  static constexpr std::size_t reserved_bytes = std::size_t{1} << 38;
  static constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
  static constexpr std::size_t largest_class_bytes = std::size_t{16} << 10;
  static constexpr unsigned classes = 41;
  struct Chunk;
  struct Free;

  [[nodiscard]] static unsigned class_of(std::size_t bytes) noexcept;
  [[nodiscard]] static std::size_t bytes_of(unsigned size_class) noexcept;
  [[nodiscard]] Chunk* new_chunk(std::size_t bytes);
  void refill(unsigned size_class);

  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
  std::array<Free*, classes> free_{};
  Chunk* free_large_ = nullptr;  ///< a list
  std::atomic_flag busy_;        ///< blocks may be freed by threads of the host
};

/// From now on this OS thread's `new` comes from the arena, in simulated threads or not: what the
/// harness prepares for them lies at the same places in every run, too.
/// Returns what was before.
bool use_arena_on_this_thread(bool use) noexcept;
[[nodiscard]] bool arena_owns(const void* block) noexcept;

}  // namespace perdure::platform::runtime
