#include "crash/callers.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace perdure::crash {

bool is_carrier(const char* function) noexcept {
  // A template's name begins with its return type.
  std::string_view name = function;
  const std::size_t arguments = name.find('(');
  const std::string_view head = name.substr(0, arguments);
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (head[i] == '<') ++depth;
    if (head[i] == '>') --depth;
    if (head[i] == ' ' && depth == 0) begin = i + 1;
  }
  name.remove_prefix(begin);
  return name.starts_with("perdure::pm::") || name.starts_with("std::") ||
         name.starts_with("__gnu_cxx::");
}

thread_local std::unordered_map<const void*, bool> Callers::known_;

bool Callers::carries(const void* pc) {
  Known& slot = recent_[(reinterpret_cast<std::uintptr_t>(pc) >> 2) % recent_.size()];
  if (slot.pc != pc) slot = {pc, look_up(pc)};
  return slot.carrier;
}

bool Callers::look_up(const void* pc) {
  const auto at = known_.find(pc);
  if (at != known_.end()) return at->second;
  bool carrier = false;
  Dl_info info{};
  const void* const call = static_cast<const char*>(pc) - 1;
  if (dladdr(call, &info) != 0 && info.dli_sname != nullptr) {
    int status = 0;
    char* const plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    carrier = status == 0 && is_carrier(plain);
    std::free(plain);
  }
  return known_[pc] = carrier;
}

const void* Callers::of(const void* pc) {
  if (!carries(pc)) return pc;
  struct Frame {
    const Frame* up;
    const void* return_address;
  };
  constexpr unsigned most_frames = 16;
  constexpr std::uintptr_t largest_frame = 64 << 10;
  const auto* frame = static_cast<const Frame*>(__builtin_frame_address(0));
  bool found = false;
  for (unsigned i = 0; i < most_frames; ++i) {
    found = found || frame->return_address == pc;
    if (found && !carries(frame->return_address)) return frame->return_address;
    const auto here = reinterpret_cast<std::uintptr_t>(frame);
    const auto next = reinterpret_cast<std::uintptr_t>(frame->up);
    if (next <= here || next - here > largest_frame) break;
    frame = frame->up;
  }
  return pc;
}

}  // namespace perdure::crash
