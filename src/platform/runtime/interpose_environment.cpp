// The environment that PMDK sees: the program exports this function, and the dynamic linker prefers
// it from the first constructor on.
//
// PMDK's variables decide which functions it calls and where libpmemobj lets threads begin, so a
// record would change with the shell that it was made from. Under simulation all are as if unset,
// but that every pool counts as persistent memory: the platform says what memory it is.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>

namespace {

const char* simulated(const char* name) noexcept {
  static char forced[] = "1";
  return std::strcmp(name, "PMEM_IS_PMEM_FORCE") == 0 ? forced : nullptr;
}

bool starts_with(const char* text, const char* beginning) noexcept {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

char* look_up(const char* name) noexcept {
  const std::size_t length = std::strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
      return *entry + length + 1;
  return nullptr;
}

}  // namespace

// libpmem, libpmemobj, libpmem2 and memkind (MEMKIND_HEAP_MANAGER and the like) ask this one.
extern "C" char* secure_getenv(const char* name) noexcept {
  if (starts_with(name, "PMEM")) return const_cast<char*>(simulated(name));
  if (starts_with(name, "MEMKIND_") || starts_with(name, "JE_")) return nullptr;
  return getauxval(AT_SECURE) != 0 ? nullptr : look_up(name);
}
