// Elision: a hardware transaction of an explored run. Nothing else runs inside one, so it conflicts
// with nobody: it commits as a whole, or is given up, and then nothing of it is left.
//
// E1  after `give_up`, memory outside the thread's own stack below the begin holds what it held at
//     the begin, if every store inside was announced by `remember`; the stack above it does anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace perdure::crash {

class Elision {
 public:
  /// Status words as the instruction returns them.
  static constexpr std::uint32_t started = ~std::uint32_t{0};
  static constexpr std::uint32_t aborted = 0;
  static constexpr std::uint32_t aborted_by_program = 1U << 0 | 1U << 24;
  static constexpr std::uint32_t aborted_for_good = 1U << 3;  ///< another try has no use

  [[nodiscard]] bool active() const noexcept { return depth_ != 0; }
  /// `frame`: the stack pointer to go on at when it is given up. A nested one joins the outer one.
  void begin(std::byte* frame, const std::byte* caller_frame, std::span<std::byte> stack);
  /// Bytes at `address` are about to be stored to.
  void remember(const void* address, std::size_t bytes);
  /// True when the outermost one has ended.
  [[nodiscard]] bool commit() noexcept { return --depth_ == 0; }
  /// Takes every store back.
  void undo();
  /// After `undo`: returns `status` from the begin.
  [[noreturn]] void give_up(std::uint32_t status);

 private:
  struct Old {
    std::byte* address;
    std::size_t bytes;
    std::size_t position;  ///< in `old_bytes_`
  };

  unsigned depth_ = 0;
  std::byte* frame_ = nullptr;
  const std::byte* stack_ = nullptr;  ///< its lowest byte
  std::vector<std::byte> saved_;      ///< the stack from `frame_` up
  std::vector<Old> old_;
  std::vector<std::byte> old_bytes_;
};

}  // namespace perdure::crash
