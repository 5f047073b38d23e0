// Picks what stands behind the facade: the machine's instructions or the simulator.
#pragma once

#ifdef PERDURE_SIM
#include "pm/simulated_instructions.h"
#else
#include "pm/native_instructions.h"
#endif
