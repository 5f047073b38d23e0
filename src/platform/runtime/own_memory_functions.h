// Included before anything else in every unit of the runtime (-include): its own copies go straight
// to the C library, past the linker's --wrap, or hooks would call hooks. And its own memory never
// comes from the simulated threads' arena: what they find there must not depend on the size of the
// model's tables, nor on what is watched meanwhile.
#pragma once

namespace std {
enum class align_val_t : unsigned long;
}
void* operator new(unsigned long) __asm__("perdure_own_new");
void* operator new(unsigned long, std::align_val_t) __asm__("perdure_own_new_aligned");

extern "C" {
void* memcpy(void*, const void*, unsigned long) noexcept __asm__("__real_memcpy");
void* memmove(void*, const void*, unsigned long) noexcept __asm__("__real_memmove");
void* memset(void*, int, unsigned long) noexcept __asm__("__real_memset");
int memcmp(const void*, const void*, unsigned long) noexcept __asm__("__real_memcmp");
unsigned long strlen(const char*) noexcept __asm__("__real_strlen");
int strcmp(const char*, const char*) noexcept __asm__("__real_strcmp");
int strncmp(const char*, const char*, unsigned long) noexcept __asm__("__real_strncmp");
}
