#include "crash/elision.h"

#include <algorithm>

#include "core/assert.h"

extern "C" [[noreturn]] void perdure_transaction_resume(std::byte* frame, const std::byte* saved,
                                                        std::size_t bytes,
                                                        std::uint32_t status) noexcept;

namespace perdure::crash {

void Elision::begin(std::byte* frame, const std::byte* caller_frame, std::span<std::byte> stack) {
  if (depth_++ != 0) return;
  // What calls preserve was pushed there, and the caller's spilled registers lie above.
  constexpr std::ptrdiff_t pushed_bytes = std::ptrdiff_t{7} * 8;
  constexpr std::ptrdiff_t most_frame_bytes = 16384;
  std::ptrdiff_t bytes = caller_frame - frame + 16;
  if (bytes < pushed_bytes || bytes > most_frame_bytes) bytes = most_frame_bytes;
  bytes = std::min(bytes, stack.data() + stack.size() - frame);
  frame_ = frame;
  stack_ = stack.data();
  saved_.assign(frame, frame + bytes);
  old_.clear();
  old_bytes_.clear();
}

void Elision::remember(const void* address, std::size_t bytes) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  if (at >= stack_ && at < frame_) return;  // E1
  old_.push_back({at, bytes, old_bytes_.size()});
  old_bytes_.insert(old_bytes_.end(), at, at + bytes);
}

void Elision::undo() {
  for (std::size_t i = old_.size(); i-- > 0;)
    std::copy_n(old_bytes_.data() + old_[i].position, old_[i].bytes, old_[i].address);
}

void Elision::give_up(std::uint32_t status) {
  PERDURE_ASSERT(active());
  depth_ = 0;
  perdure_transaction_resume(frame_, saved_.data(), saved_.size(), status);
}

}  // namespace perdure::crash
