// Wide accesses: whole 64-byte lines with the widest registers there are, for device probes and
// bulk copies. One access of 64 bytes a line under simulation, whatever the host's registers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure::pm {

// `address` is 64-byte aligned and `bytes` a multiple of 64 in all three.

/// Reads [address, address + bytes). The result depends on every line, so that no load can be
/// dropped.
[[nodiscard]] std::uint64_t load_wide(const void* address, std::size_t bytes) noexcept;

/// Fills [address, address + bytes) with `word`, through the caches.
void store_wide(void* address, std::uint64_t word, std::size_t bytes) noexcept;

/// The same past the caches: unordered pieces until the next fence.
void stream_wide(void* address, std::uint64_t word, std::size_t bytes) noexcept;

}  // namespace perdure::pm
