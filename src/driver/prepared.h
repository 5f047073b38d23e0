// Prepared: the steps that one thread has prepared, and how far it has run them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver/instance.h"
#include "driver/steps.h"
#include "workload/stream.h"

namespace perdure::driver {

template <class Keys>
class Prepared {
 public:
  using Step = typename StepBuffer<Keys>::Step;

  Prepared(const Instance<Keys>& instance, unsigned thread)
      : stream_(instance.workload, instance.place(thread)), buffer_(instance.workload) {}

  /// Starts a repetition of `operations` over the instance's threads; 0: without end.
  void begin(unsigned repetition, std::uint64_t operations) {
    stream_.begin(repetition, operations);
    executed_ = counted_ = size_ = 0;
    done_before_ = 0;
  }

  /// True when so many steps are left that no new ones are needed yet.
  [[nodiscard]] bool suffices() const noexcept {
    return executed_ < size_ && (size_ - executed_) * 2 > size_;
  }

  /// Replaces the executed steps by new ones; returns how many had been executed.
  std::size_t refill() {
    if (executed_ < size_) stream_.settle(executed_);
    const std::size_t executed = executed_;
    done_before_ += executed;
    size_ = buffer_.fill(stream_);
    executed_ = counted_ = 0;
    return executed;
  }

  /// Gives back what was prepared and not executed; returns how many had been executed.
  std::size_t finish() {
    if (executed_ < size_) stream_.settle(executed_);
    const std::size_t executed = executed_;
    executed_ = counted_ = size_ = 0;
    return executed;
  }

  /// Counts the operations executed since the last call, by their steps, so that the timed loop
  /// need not.
  template <class Counts>
  void count(Counts& attempted) noexcept {
    const Step* const steps = data();
    for (; counted_ < executed_; ++counted_) ++attempted[steps[counted_].operation];
  }

  [[nodiscard]] bool more() const noexcept { return executed_ < size_ || stream_.remaining() != 0; }
  [[nodiscard]] bool fresh_exhausted() const noexcept { return stream_.fresh_exhausted(); }

  [[nodiscard]] const Step* data() const noexcept { return buffer_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t executed() const noexcept { return executed_; }
  void set_executed(std::size_t executed) noexcept { executed_ = executed; }
  /// Operations of earlier fillings.
  [[nodiscard]] std::uint64_t done_before() const noexcept { return done_before_; }

 private:
  workload::OperationStream stream_;
  StepBuffer<Keys> buffer_;
  std::size_t size_ = 0;
  std::size_t executed_ = 0;  ///< of `size_`
  std::size_t counted_ = 0;   ///< of `executed_`
  std::uint64_t done_before_ = 0;
};

}  // namespace perdure::driver
