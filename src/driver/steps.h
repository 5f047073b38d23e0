// StepBuffer: the steps of one thread, prepared ahead of time; about 3 MB, so that they stream
// through the caches once.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "driver/target.h"
#include "index/index.h"
#include "workload/stream.h"

namespace perdure::driver {

template <class Keys>
class StepBuffer;

template <>
class StepBuffer<IntegerKeys> {
 public:
  using Step = workload::IntegerStep;
  static constexpr std::size_t capacity = std::size_t{1} << 17;

  explicit StepBuffer(const workload::Workload&) : steps_(capacity / Target::smaller_blocks) {}
  template <class Stream>
  std::size_t fill(Stream& stream) {
    return stream.fill(steps_);
  }
  [[nodiscard]] const Step* data() const noexcept { return steps_.data(); }

 private:
  std::vector<Step> steps_;
};

template <class Keys>
  requires has_text_values<Keys>
class StepBuffer<Keys> {
 public:
  using Step = std::conditional_t<has_text_keys<Keys>, workload::BytesStep, workload::SlotStep>;
  static constexpr std::size_t capacity = std::size_t{1} << 16;
  static constexpr std::size_t arena_bytes = std::size_t{8} << 20;

  explicit StepBuffer(const workload::Workload& workload)
      : block_(workload, capacity / Target::smaller_blocks, arena_bytes / Target::smaller_blocks) {}
  template <class Stream>
  std::size_t fill(Stream& stream) {
    return stream.fill(block_);
  }
  [[nodiscard]] const Step* data() const noexcept { return block_.steps().data(); }
  [[nodiscard]] std::unique_ptr<char[]> take_text() { return block_.take_text(); }

 private:
  workload::TextBlock<Step> block_;
};

}  // namespace perdure::driver
