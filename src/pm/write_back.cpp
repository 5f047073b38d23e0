#include "pm/write_back.h"

#include "pm/persist.h"

namespace perdure::pm {
namespace {

void write_back_line(const std::byte* line) noexcept {
  switch (detect_flush_instruction()) {
    case FlushInstruction::clwb:
      return detail::instruction::clwb(line);
    case FlushInstruction::clflushopt:
      return detail::instruction::clflushopt(line);
    case FlushInstruction::clflush:
      return detail::instruction::clflush(line);
    case FlushInstruction::none:
      break;
  }
}

}  // namespace

void write_back(const void* address, std::size_t bytes) noexcept {
  if (persist_mode().durability != Durability::eadr) return flush(address, bytes);
  asm volatile("" ::: "memory");  // the stores stay before the write-back
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const auto end = begin + bytes;
  for (auto line = begin & ~(cache_line_bytes - 1); line < end; line += cache_line_bytes)
    write_back_line(reinterpret_cast<const std::byte*>(line));
}

}  // namespace perdure::pm
