#include "pm/persist.h"

namespace perdure::pm {
namespace detail {
PersistMode mode;
}

using detail::instruction::flush_support;
using detail::instruction::FlushSupport;

FlushInstruction detect_flush_instruction() noexcept {
  static const FlushSupport support = flush_support();
  if (support.clwb) return FlushInstruction::clwb;
  if (support.clflushopt) return FlushInstruction::clflushopt;
  return FlushInstruction::clflush;
}

void configure(Durability durability) noexcept {
  detail::mode = {
      .durability = durability,
      .flush = durability == Durability::adr ? detect_flush_instruction() : FlushInstruction::none};
}

Result<void> configure(Durability durability, FlushInstruction flush) {
  const FlushSupport support = flush_support();
  if ((flush == FlushInstruction::clwb && !support.clwb) ||
      (flush == FlushInstruction::clflushopt && !support.clflushopt))
    return Error{ErrorCode::unsupported, std::string("this CPU has no ") + name_of(flush),
                 "--flush", std::string("use ") + name_of(detect_flush_instruction())};
  detail::mode = {.durability = durability,
                  .flush = durability == Durability::adr ? flush : FlushInstruction::none};
  return {};
}

PersistMode persist_mode() noexcept { return detail::mode; }

const char* name_of(Durability durability) noexcept {
  switch (durability) {
    case Durability::adr:
      return "adr";
    case Durability::eadr:
      return "eadr";
    case Durability::none:
      return "none";
  }
  return "?";
}

const char* name_of(FlushInstruction instruction) noexcept {
  switch (instruction) {
    case FlushInstruction::none:
      return "none";
    case FlushInstruction::clflush:
      return "clflush";
    case FlushInstruction::clflushopt:
      return "clflushopt";
    case FlushInstruction::clwb:
      return "clwb";
  }
  return "?";
}

void stream(void* destination, const void* source, std::size_t bytes) noexcept {
  if (detail::mode.durability == Durability::none) {
    std::memcpy(destination, source, bytes);
    return;
  }
  detail::instruction::stream(destination, source, bytes);
}

}  // namespace perdure::pm
