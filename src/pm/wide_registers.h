// PERDURE_WIDE_REGISTERS: the registers that assembly with AVX-512 overwrites, for its clobber
// list.
#pragma once

#ifdef __AVX512F__
#define PERDURE_WIDE_REGISTERS \
  "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "k1", "k2", "k3",
#else  // the compiler does not use them, and g++ knows no such names
#define PERDURE_WIDE_REGISTERS
#endif
