// Write-back: lines go to memory in every durability but `none`. pm::flush (persist.h) is for what
// must become durable, so it does nothing under eADR; this is for what had better leave the caches.
#pragma once

#include <cstddef>

namespace perdure::pm {

/// Starts write-back of every line that [address, address + bytes) touches; durable after `fence`.
/// Cost: one flush a line under adr and eadr, with the best instruction there is where the mode has
/// none; nothing under `none`.
void write_back(const void* address, std::size_t bytes) noexcept;

}  // namespace perdure::pm
