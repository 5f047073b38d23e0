#include "driver/repetitions.h"

#include <algorithm>
#include <set>

#include "platform/description/placement.h"

namespace perdure::driver {

namespace {

// As many as fill the caches with payloads, each with the lines of a slot around it.
std::uint64_t pushes_that_warm(const QueueRun& queue, std::uint64_t lines) {
  constexpr std::uint64_t most = 200'000;  // of small payloads: what a queue has of slots is less
  const std::uint64_t lines_per_payload = 2 + queue.payload_bytes / 64;
  return std::clamp<std::uint64_t>(lines / lines_per_payload, 1000, most);
}

}  // namespace

// Fills the last-level caches of the sockets that run threads several times over, but reads or
// writes each record no more than about twice, where scans count for every record they return.
std::uint64_t operations_that_warm(const BenchConfig& config) {
  const platform::Platform& platform = config.simulated->platform;
  const std::vector<unsigned>& cpus = config.simulated->cpus;
  std::set<unsigned> sockets;
  for (std::size_t t = 0; t < std::min<std::size_t>(config.threads, cpus.size()); ++t)
    sockets.insert(platform::node_of(platform, cpus[t]));
  const platform::CoreParameters& cpu = platform.cpu;
  const std::uint64_t lines = cpu.llc_per_core.bytes * cpu.cores_per_socket * sockets.size() / 64;
  if (config.queue) {
    // Without consumers more would not fit; then the caches stay as the prefill left them.
    return config.queue->consumers == 0 ? 0 : pushes_that_warm(*config.queue, lines);
  }
  const workload::Workload& workload = config.workload;
  const double scans = workload.mix.share(workload::Operation::scan);
  const double records_per_scan = 0.5 * (workload.scan.min + workload.scan.max);
  const double records_each = 1 - scans + scans * std::max(1.0, records_per_scan);
  const auto operations = static_cast<std::uint64_t>(
      2 * static_cast<double>(workload.records * config.instances()) / records_each);
  return std::clamp<std::uint64_t>(operations, 1000, lines / 2);
}

}  // namespace perdure::driver
