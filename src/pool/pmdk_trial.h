// A pool of libpmemobj is opened in a child process first, because libpmemobj ends the process, or
// never comes back, where what it keeps about its heap is damaged: it trusts most of it.
#pragma once

#include <libpmemobj.h>

#include <cstdint>
#include <string>

#include "core/result.h"

namespace perdure {

/// `pmemobj_open`, which waits for the pool's lock as `lock_file` does. Null: errno says why.
[[nodiscard]] PMEMobjpool* open_when_unlocked(const char* path, const char* layout);

/// Opens the pool copy-on-write in a child process, has libpmemobj check it, and goes through its
/// objects. Nothing is written to the pool. The caller does not hold its lock.
///
/// Left out where pools are opened copy-on-write anyway: these are copies, and whoever makes them
/// opens thousands (crash/pmdk_copies.cpp). Where the child cannot tell (no process could be made;
/// another thread's lock, which no child can wait for, held it up) the pool is taken for sound.
///
/// Errors: corrupt. Cost: a fork and about what opening and sweeping cost.
[[nodiscard]] Result<void> try_pmdk_pool(const std::string& path, const char* layout,
                                         std::uint64_t bytes);

}  // namespace perdure
