#include "pool/options.h"

namespace perdure {

const char* name_of(HeapKind kind) noexcept {
  switch (kind) {
    case HeapKind::pmdk:
      return "pmdk";
    case HeapKind::slab:
      return "slab";
    case HeapKind::dram:
      return "dram";
    case HeapKind::memkind:
      return "memkind";
  }
  return "?";
}

const char* name_of(Medium medium) noexcept {
  switch (medium) {
    case Medium::devdax:
      return "devdax";
    case Medium::fsdax:
      return "fsdax";
    case Medium::tmpfs:
      return "tmpfs";
    case Medium::page_cache:
      return "page_cache";
    case Medium::anonymous:
      return "anonymous";
  }
  return "?";
}

}  // namespace perdure
