// TraceReplay: a trace, replayed event by event through the persistency model. The image is at the
// floor of the event that is reached, so the states that a cut there may leave can be made in it.
#pragma once

#include <cstdint>

#include "crash/image.h"
#include "crash/persistency.h"
#include "crash/recorded.h"

namespace perdure::crash {

class TraceReplay {
 public:
  struct Rules {
    Domain domain = Domain::adr;
    unsigned threads = 1;
    bool reorder = false;  ///< M5
  };
  /// From what `image` holds. Trace and image outlive the replay.
  TraceReplay(const Trace& trace, Image& image, Rules rules);
  /// From the pool before the run, which `image` becomes.
  TraceReplay(const Recorded& run, Image& image, Rules rules);

  /// The number of the event that is next.
  [[nodiscard]] std::uint32_t at() const noexcept { return at_; }
  [[nodiscard]] bool at_end() const noexcept { return at_ == trace_.size(); }
  [[nodiscard]] const Event& next() const { return trace_[at_]; }
  void step();
  /// Up to the event, or to the end of the trace.
  void go_to(std::uint32_t event) {
    while (at_ < event && !at_end()) step();
  }
  /// The next event raises a floor: the moment before it is a crash point.
  [[nodiscard]] bool raises_floor() const;

  [[nodiscard]] const Persistency& model() const noexcept { return model_; }

 private:
  const Trace& trace_;
  Persistency model_;
  std::uint32_t at_ = 0;
  unsigned running_ = 0;  ///< thread
};

}  // namespace perdure::crash
