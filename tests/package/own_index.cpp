// The library carries its registrations, and a program may add one of its own.
#include <cstdio>

#include "index/registry.h"

int main() {
  for (const char* name : {"fptree", "lbtree", "stdmap", "null", "chained_hash"})
    if (auto found = perdure::IndexRegistry::find(name); !found)
      return std::fprintf(stderr, "%s\n", found.error().line().c_str()), 1;
  return 0;
}
