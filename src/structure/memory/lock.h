// Lock policies of a structure: what a `StructureIndex` takes as its `Lock`. A policy has a
// ReadGuard and a WriteGuard.
#pragma once

#include "pm/shared_lock.h"

namespace perdure::structure {

/// One lock for the instance, in DRAM; readers share it.
using InstanceLock = pm::SharedLock;

}  // namespace perdure::structure
