// PERDURE_FRAME: marks a function that a flame graph shows on its own. A simulated build keeps it a
// call; elsewhere the compiler inlines it as it likes.
#pragma once

#ifdef PERDURE_SIM
#define PERDURE_FRAME [[gnu::noinline]]
#else
#define PERDURE_FRAME
#endif
