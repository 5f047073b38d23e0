#include "driver/simulated_record.h"

#include <algorithm>
#include <utility>

#include "platform/description/description.h"
#include "platform/description/placement.h"

namespace perdure::driver {
namespace {

using Json = nlohmann::ordered_json;
using platform::Counters;
using platform::MemoryCounters;
using platform::TimeSplit;

/// Null where the divisor is 0: without traffic there is no ratio.
Json ratio(double part, double whole) {
  if (whole == 0) return nullptr;
  return part / whole;
}
Json ratio(std::uint64_t part, std::uint64_t whole) {
  return ratio(static_cast<double>(part), static_cast<double>(whole));
}

Json memory_record(const MemoryCounters& memory) {
  return {{"controller_read_bytes", memory.controller_read_bytes},
          {"controller_write_bytes", memory.controller_write_bytes},
          {"media_read_bytes", memory.media_read_bytes},
          {"media_write_bytes", memory.media_write_bytes},
          {"buffer_read_hits", memory.buffer_read_hits},
          {"buffer_read_misses", memory.buffer_read_misses},
          {"buffer_write_hits", memory.buffer_write_hits},
          {"buffer_write_misses", memory.buffer_write_misses},
          {"read_modify_writes", memory.read_modify_writes},
          {"wear_levelling_stalls", memory.wear_levelling_stalls},
          {"directory_writes", memory.directory_writes}};
}

Json abort_record(const Counters& c) {
  return {{"conflict", c.aborts_conflict},
          {"capacity", c.aborts_capacity},
          {"explicit", c.aborts_explicit},
          {"flush", c.aborts_flush},
          {"other", c.aborts_other}};
}

Json counters_record(const Counters& c) {
  return {{"loads", c.loads},
          {"stores", c.stores},
          {"atomics", c.atomics},
          {"l1_hits", c.l1_hits},
          {"l1_misses", c.l1_misses},
          {"l2_hits", c.l2_hits},
          {"l2_misses", c.l2_misses},
          {"llc_hits", c.llc_hits},
          {"llc_misses", c.llc_misses},
          {"tlb_misses", c.tlb_misses},
          {"flushes", c.flushes},
          {"fences", c.fences},
          {"streaming_stores", c.streaming_stores},
          {"upi_bytes", c.upi_bytes},
          {"transaction_commits", c.transaction_commits},
          {"aborts", abort_record(c)},
          {"dram", memory_record(c.dram)},
          {"pm", memory_record(c.pm)}};
}

/// Bytes per second that the pool's DIMMs can take from or give to the controller at best.
double peak(const platform::PmParameters& pm, double media_ns, double line_ns) {
  constexpr double xpline = 256;
  constexpr double line = 64;
  const double dimm =
      pm.behaves_as_dram ? line / line_ns : std::min(xpline / media_ns, line / line_ns);
  return dimm * pm.dimms * 1e9;
}

double read_peak(const platform::Platform& platform) {
  return peak(platform.pm, platform.pm.media_read_ns, platform.pm.line_read_ns);
}
double write_peak(const platform::Platform& platform) {
  return peak(platform.pm, platform.pm.media_write_ns, platform.pm.line_write_ns);
}

// EWR, EBR and RWR as the studies define them; hit ratios of the DIMMs' buffers.
Json ratios_record(const platform::Platform& platform, const MemoryCounters& pm, double seconds) {
  const auto rate = [&](std::uint64_t bytes, double most) {
    return bytes == 0 ? Json(nullptr) : ratio(static_cast<double>(bytes), most * seconds);
  };
  const std::uint64_t reads = pm.buffer_read_hits + pm.buffer_read_misses;
  const std::uint64_t writes = pm.buffer_write_hits + pm.buffer_write_misses;
  return {{"ewr", ratio(pm.controller_write_bytes, pm.media_write_bytes)},
          {"err", ratio(pm.controller_read_bytes, pm.media_read_bytes)},
          {"ebr_read", rate(pm.controller_read_bytes, read_peak(platform))},
          {"ebr_write", rate(pm.controller_write_bytes, write_peak(platform))},
          {"rwr", ratio(pm.media_read_bytes, pm.media_write_bytes)},
          {"buffer_read_hit_ratio", ratio(pm.buffer_read_hits, reads)},
          {"buffer_write_hit_ratio", ratio(pm.buffer_write_hits, writes)},
          {"buffer_hit_ratio", ratio(pm.buffer_read_hits + pm.buffer_write_hits, reads + writes)}};
}

// `divisor`: operations. Picoseconds become nanoseconds, so that sums agree to the last digit
// shown.
Json time_record(const TimeSplit& time, double divisor) {
  const auto part = [divisor](platform::Time ps) {
    return static_cast<double>(ps) / (1000.0 * divisor);
  };
  return {{"compute", part(time.compute)},
          {"l1", part(time.l1)},
          {"l2", part(time.l2)},
          {"llc", part(time.llc)},
          {"memory_queueing", part(time.memory_queueing)},
          {"media", part(time.media)},
          {"flush_fence", part(time.flush_fence)},
          {"lock_wait", part(time.lock_wait)},
          {"aborted_transactions", part(time.aborted_transactions)},
          {"total", part(time.total())}};
}

Json per_operation_record(const SimulatedPhase& phase, std::uint64_t operations) {
  const Counters& c = phase.counters;
  const auto count = static_cast<double>(operations);
  const auto each = [count](std::uint64_t total) { return static_cast<double>(total) / count; };
  Json aborts = Json::object();
  std::uint64_t all_aborts = 0;
  const Json causes = abort_record(c);
  for (const auto& [cause, number] : causes.items()) {
    aborts[cause] = each(number.get<std::uint64_t>());
    all_aborts += number.get<std::uint64_t>();
  }
  return {{"time_ns", time_record(phase.time, count)},
          {"loads", each(c.loads)},
          {"stores", each(c.stores)},
          {"atomics", each(c.atomics)},
          {"flushes", each(c.flushes)},
          {"fences", each(c.fences)},
          {"streaming_stores", each(c.streaming_stores)},
          {"llc_misses", each(c.llc_misses)},
          {"upi_bytes", each(c.upi_bytes)},
          {"transaction_commits", each(c.transaction_commits)},
          {"transaction_aborts", each(all_aborts)},
          {"aborts", std::move(aborts)},
          {"pm_controller_read_bytes", each(c.pm.controller_read_bytes)},
          {"pm_controller_write_bytes", each(c.pm.controller_write_bytes)},
          {"pm_media_read_bytes", each(c.pm.media_read_bytes)},
          {"pm_media_write_bytes", each(c.pm.media_write_bytes)},
          {"dram_read_bytes", each(c.dram.controller_read_bytes)},
          {"dram_write_bytes", each(c.dram.controller_write_bytes)}};
}

Json placement_record(const Placement& placement) {
  Json parts = Json::object();
  for (unsigned part = 0; part < placement.parts.size(); ++part) {
    const bool dram = std::ranges::find(placement.in_dram, part) != placement.in_dram.end();
    parts[placement.parts[part]] = {{"node", placement.nodes[part]},
                                    {"memory", dram ? "dram" : "pm"}};
  }
  return {{"near", placement.near}, {"parts", std::move(parts)}};
}

/// As the scripts of pmidio have them: upside down, and at the media.
Json published_ratios(const platform::Platform& platform, const MemoryCounters& pm,
                      double seconds) {
  const auto rate = [&](std::uint64_t bytes, double most) {
    return bytes == 0 ? Json(nullptr) : ratio(static_cast<double>(bytes), most * seconds);
  };
  return {{"ewr", ratio(pm.media_write_bytes, pm.controller_write_bytes)},
          {"ebr_read", rate(pm.media_read_bytes, read_peak(platform))},
          {"ebr_write", rate(pm.media_write_bytes, write_peak(platform))}};
}

/// Bytes by the least size of the stores that wrote them.
Json store_sizes_record(const std::array<std::uint64_t, platform::store_classes>& stored) {
  Json sizes = Json::array();
  for (std::size_t i = 0; i < stored.size(); ++i)
    sizes.push_back({{"at_least", i == 0 ? 1 : platform::smallest_store_class << (i - 1)},
                     {"bytes", stored[i]}});
  return sizes;
}

/// Of each part its traffic, and the ratios where it lies in the pool's kind of memory.
Json parts_record(const BenchConfig& config, const Counters& counters, double seconds) {
  const Placement& placement = *config.placement;
  Json parts = Json::object();
  for (unsigned part = 0; part < placement.parts.size(); ++part) {
    const MemoryCounters& of_part = counters.parts[part];
    parts[placement.parts[part]] = {
        {"counters", memory_record(of_part)},
        {"ratios", ratios_record(config.simulated->platform, of_part, seconds)},
        {"published", published_ratios(config.simulated->platform, of_part, seconds)},
        {"store_sizes", store_sizes_record(counters.stored[part])}};
  }
  return parts;
}

}  // namespace

Json platform_record(const BenchConfig& config) {
  if (!config.simulated) return nullptr;
  const SimulatedMachine& machine = *config.simulated;
  Json record = {{"name", machine.platform.name},
                 {"title", machine.platform.title},
                 {"fingerprint", machine.fingerprint},
                 {"persistence_domain", platform::name_of(machine.platform.domain)},
                 {"clock_ghz", machine.platform.cpu.clock_ghz},
                 {"cpus", machine.cpus},
                 {"pool_node", machine.pool_node},
                 {"dram_node", machine.dram_node},
                 {"carrier", machine.carrier == platform::Carrier::fibers ? "fibers" : "threads"},
                 {"warm", machine.warm},
                 {"guard", machine.guard},
                 {"ablations", platform::names_of(machine.ablation)}};
  if (const unsigned threads = config.background_threads(); threads != 0)
    record["background_threads"] = threads;
  if (config.placement) record["placement"] = placement_record(*config.placement);
  return record;
}

Json simulation_record(const BenchConfig& config, const std::optional<SimulatedPhase>& phase,
                       std::uint64_t operations, double seconds) {
  if (!config.simulated || !phase) return nullptr;
  Json record = {{"counters", counters_record(phase->counters)},
                 {"ratios", ratios_record(config.simulated->platform, phase->counters.pm, seconds)},
                 {"time_ns", time_record(phase->time, 1)},
                 {"per_operation", nullptr}};
  if (config.placement) record["parts"] = parts_record(config, phase->counters, seconds);
  if (operations != 0) record["per_operation"] = per_operation_record(*phase, operations);
  return record;
}

}  // namespace perdure::driver
