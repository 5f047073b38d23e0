// Included before anything else in every unit of the runtime (-include): its own copies go straight
// to the C library, past the linker's --wrap, or hooks would call hooks.
#pragma once

extern "C" {
void* memcpy(void*, const void*, unsigned long) noexcept __asm__("__real_memcpy");
void* memmove(void*, const void*, unsigned long) noexcept __asm__("__real_memmove");
void* memset(void*, int, unsigned long) noexcept __asm__("__real_memset");
int memcmp(const void*, const void*, unsigned long) noexcept __asm__("__real_memcmp");
}
