// Instance: one of the indexes that a run operates: all threads' one, or each thread's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/rng.h"
#include "driver/config.h"
#include "index/index.h"
#include "workload/stream.h"
#include "workload/verify.h"

namespace perdure::driver {

template <class Keys>
struct Instance {
  /// The `number`th of the run's. Each has keys and operations of its own.
  Instance(const BenchConfig& config, unsigned number)
      : workload(config.workload),
        threads(config.threads / config.instances()),
        root_name(number == 0 ? "index" : "index" + std::to_string(number)) {
    if (number != 0) workload.seed = mix64(workload.seed ^ mix64(number));
  }
  Instance(Instance&&) noexcept = default;

  /// Which of the threads that operate this instance a thread of the run is.
  [[nodiscard]] workload::Place place(unsigned thread) const noexcept {
    return {thread % threads, threads, first_fresh_id};
  }

  workload::Workload workload;
  unsigned threads;
  std::string root_name;  ///< in the pool
  std::unique_ptr<OrderedIndex<Keys>> index{};
  std::unique_ptr<workload::Verifier> verifier{};
  std::uint64_t first_fresh_id = 0;
};

}  // namespace perdure::driver
