// The facade for what C++ cannot say about persistent memory. Index code includes this and nothing
// below it; the simulated half provides the same names.
#pragma once

#include "pm/asymmetric_fence.h"
#include "pm/hints.h"
#include "pm/persist.h"
#include "pm/shared_lock.h"
#include "pm/simd.h"
#include "pm/thread.h"
#include "pm/transaction.h"
#include "pm/version_lock.h"
#include "pm/wide.h"
