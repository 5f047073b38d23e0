// Runs a job over a range on several threads: recovery and bulk load.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

#include "core/result.h"

namespace perdure {

/// Calls `job(begin, end, part)` for `threads` parts of [0, count) at once and returns the first
/// error. With one thread, or too little to share, in this thread.
template <class Job>
[[nodiscard]] Result<void> in_parallel(std::size_t count, unsigned threads, Job&& job) {
  constexpr std::size_t worth_a_thread = 512;
  const std::size_t parts =
      std::clamp<std::size_t>(count / worth_a_thread, 1, std::max(1U, threads));
  if (parts == 1) return job(std::size_t{0}, count, std::size_t{0});
  std::vector<Result<void>> results(parts);
  std::vector<std::thread> workers;
  workers.reserve(parts);
  for (std::size_t part = 0; part < parts; ++part)
    workers.emplace_back(
        [&, part] { results[part] = job(count * part / parts, count * (part + 1) / parts, part); });
  for (std::thread& worker : workers) worker.join();
  for (Result<void>& result : results)
    if (!result) return result;
  return {};
}

}  // namespace perdure
