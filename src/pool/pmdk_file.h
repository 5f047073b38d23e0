// What a file of libpmemobj looks like, told without libpmemobj, which trusts most of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/result.h"
#include "pool/file.h"

namespace perdure {

inline constexpr const char* pmdk_layout_name = "perdure";

/// The part of libpmemobj's pool descriptor (format 6, second page of the file) that is checked
/// before libpmemobj sees the file, because it trusts most of it.
struct PmdkDescriptor {
  static constexpr std::uint64_t offset = 4096;

  std::array<char, 1024> layout;
  std::uint64_t lanes_offset;
  std::uint64_t lanes;
  std::uint64_t heap_offset;
  std::array<std::uint64_t, 124> unused;
  std::uint64_t checksum;
  std::uint64_t root_offset;
  std::uint64_t run_id;
  std::uint64_t root_bytes;
  std::uint64_t conversion_flags;
  std::uint64_t heap_bytes;
};
static_assert(offsetof(PmdkDescriptor, root_offset) == 2048);

/// True when a file that begins with `page` is a libpmemobj pool, of any layout.
[[nodiscard]] bool is_pmdk_signature(const std::byte* page) noexcept;

/// True when the file is a libpmemobj pool that we made, even if one of the three places that say
/// so is damaged: libpmemobj's signature, the name of our layout, the magic of our header.
[[nodiscard]] bool is_our_pmdk_file(const File& file) noexcept;

/// Checks everything that can be checked without libpmemobj, whose own checks are few.
/// Errors: truncated, corrupt, newer, foreign (another layout, or not of `parts` parts).
[[nodiscard]] Result<void> check_pmdk_file(const File& file, const std::string& path,
                                           unsigned parts);

}  // namespace perdure
