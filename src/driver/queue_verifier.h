// QueueVerifier: whether a queue hands out what was pushed: whole, in order, once.
//
// V1  A popped payload is of a push of a known producer, and as long as that pushed it.
// V2  A pop never returns a push older than one of the same producer that was popped by a pop which
//     had returned before this one began. So a producer's payloads leave in their order, whichever
//     consumers take them.
// V3  When no operation runs, the pushes that were popped are those that were made, without those
//     that are still there: compared by number and by a sum of hashes for each producer, because a
//     table would grow with the run. A payload popped twice or never changes both.
// V4  A pop that finds the queue empty did not overlook a payload: with the pops that may run
//     beside it, all pushes that had returned before it began are accounted for.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lockfree/base/durable_queue.h"
#include "workload/verify.h"

namespace perdure::driver {

class QueueVerifier {
 public:
  using Summary = workload::Verifier::Summary;

  /// What a consumer knows when its pop begins.
  struct Before {
    std::vector<std::uint64_t> newest{};  ///< of each producer: popped, and that pop has returned
    std::uint64_t pushed = 0;             ///< pushes that have returned
  };

  /// `poppers`: threads that may pop at the same time.
  QueueVerifier(unsigned producers, unsigned poppers, std::size_t payload_bytes);

  /// A recovered payload, in the order in which it came out, while no other operation runs. It
  /// counts as pushed, by whatever producer it names. The number of its push; 0: of none.
  PushTag adopt(std::string_view payload);

  /// A push has returned. One thread calls it for a producer at a time.
  void pushed(PushTag push) noexcept;
  /// Before a pop; allocates once.
  void before_pop(Before& before) const;
  /// A pop has returned this payload.
  void popped(const Before& before, std::string_view payload);
  /// A pop has found the queue empty.
  void found_empty(const Before& before);
  /// No operation runs, and the queue is empty.
  void emptied();

  [[nodiscard]] Summary summary() const;

 private:
  /// What one thread's pushes of a producer write lies apart from what all consumers write.
  struct Producer {
    alignas(128) std::atomic<std::uint64_t> pushed{0};
    std::atomic<std::uint64_t> pushed_sum{0};
    alignas(128) std::atomic<std::uint64_t> popped{0};
    std::atomic<std::uint64_t> popped_sum{0};
    std::atomic<std::uint64_t> newest{0};  ///< popped, and that pop has returned
  };

  [[nodiscard]] std::uint64_t all_pushed() const noexcept;
  void report(const std::string& what);

  const unsigned poppers_;
  const std::size_t payload_bytes_;
  std::vector<Producer> producers_;
  std::vector<std::uint64_t> adopted_;  ///< of each producer: the last number
  std::atomic<std::uint64_t> checked_{0};
  mutable std::mutex mutex_;
  Summary found_;
};

}  // namespace perdure::driver
