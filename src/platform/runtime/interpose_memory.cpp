// The C library's memory functions, which are compiled without hooks. Calls of our own objects come
// here by the linker's --wrap; copies made inside other libraries stay unseen.
#include <cstddef>

#include "platform/runtime/engine.h"
#include "platform/runtime/observer.h"
#include "platform/runtime/outside.h"

namespace {

using perdure::platform::Observer;
using perdure::platform::runtime::current;
using perdure::platform::runtime::engine;
using perdure::platform::runtime::read_outside;
using perdure::platform::runtime::write_outside;

bool seen() noexcept {
  return current != nullptr || engine.guarded || Observer::installed() != nullptr;
}

// `caller`: the access's place in the program is the call, not the copy in here.
void note_read(const void* address, std::size_t bytes, const void* caller) {
  if (!Observer::is_hooked(address)) return;
  if (current != nullptr)
    engine.load(*current, address, bytes);
  else
    read_outside(address, bytes, caller);
}

void note_write(void* address, std::size_t bytes, const void* caller) {
  if (!Observer::is_hooked(address)) return;
  if (current != nullptr)
    engine.store(*current, address, bytes, __builtin_return_address(0));
  else
    write_outside(address, bytes, caller);
}

}  // namespace

extern "C" {

void* __real_memcpy(void* to, const void* from, std::size_t bytes) noexcept;
void* __real_memmove(void* to, const void* from, std::size_t bytes) noexcept;
void* __real_memset(void* to, int value, std::size_t bytes) noexcept;
int __real_memcmp(const void* a, const void* b, std::size_t bytes) noexcept;
void* __real_memchr(const void* text, int value, std::size_t bytes) noexcept;
std::size_t __real_strlen(const char* text);
int __real_strcmp(const char* a, const char* b);
int __real_strncmp(const char* a, const char* b, std::size_t bytes);

void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  if (seen() && bytes != 0) {
    note_read(from, bytes, __builtin_return_address(0));
    note_write(to, bytes, __builtin_return_address(0));
  }
  return __real_memcpy(to, from, bytes);
}

void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  if (seen() && bytes != 0) {
    note_read(from, bytes, __builtin_return_address(0));
    note_write(to, bytes, __builtin_return_address(0));
  }
  return __real_memmove(to, from, bytes);
}

void* __wrap_memset(void* to, int value, std::size_t bytes) {
  if (seen() && bytes != 0) note_write(to, bytes, __builtin_return_address(0));
  return __real_memset(to, value, bytes);
}

// As far as it must look: up to the first difference.
int __wrap_memcmp(const void* a, const void* b, std::size_t bytes) {
  if (seen() && bytes != 0) {
    const auto* const left = static_cast<const unsigned char*>(a);
    const auto* const right = static_cast<const unsigned char*>(b);
    std::size_t read = 0;
    while (read + 1 < bytes && left[read] == right[read]) ++read;
    ++read;
    note_read(a, read, __builtin_return_address(0));
    note_read(b, read, __builtin_return_address(0));
  }
  return __real_memcmp(a, b, bytes);
}
}

extern "C" {

void* __wrap_memchr(const void* text, int value, std::size_t bytes) {
  void* const found = __real_memchr(text, value, bytes);
  const std::size_t read = found == nullptr
                               ? bytes
                               : static_cast<std::size_t>(static_cast<const char*>(found) -
                                                          static_cast<const char*>(text)) +
                                     1;
  if (seen() && read != 0) note_read(text, read, __builtin_return_address(0));
  return found;
}

std::size_t __wrap_strlen(const char* text) {
  const std::size_t length = __real_strlen(text);
  if (seen()) note_read(text, length + 1, __builtin_return_address(0));
  return length;
}

int __wrap_strcmp(const char* a, const char* b) {
  if (seen()) {
    std::size_t read = 0;
    while (a[read] != '\0' && a[read] == b[read]) ++read;
    note_read(a, read + 1, __builtin_return_address(0));
    note_read(b, read + 1, __builtin_return_address(0));
  }
  return __real_strcmp(a, b);
}

int __wrap_strncmp(const char* a, const char* b, std::size_t bytes) {
  if (seen() && bytes != 0) {
    std::size_t read = 0;
    while (read + 1 < bytes && a[read] != '\0' && a[read] == b[read]) ++read;
    note_read(a, read + 1, __builtin_return_address(0));
    note_read(b, read + 1, __builtin_return_address(0));
  }
  return __real_strncmp(a, b, bytes);
}
}
