#include "platform/model/uncore.h"

#include <algorithm>

namespace perdure::platform {
namespace {

constexpr LineAddress near_lines = 256;
constexpr std::uint64_t long_run_lines = 1 << 11;
constexpr std::size_t busy_slots = 1024;

void add(MemoryCounters& sum, const MemoryCounters& part) noexcept {
  sum.controller_read_bytes += part.controller_read_bytes;
  sum.controller_write_bytes += part.controller_write_bytes;
  sum.media_read_bytes += part.media_read_bytes;
  sum.media_write_bytes += part.media_write_bytes;
  sum.buffer_read_hits += part.buffer_read_hits;
  sum.buffer_read_misses += part.buffer_read_misses;
  sum.buffer_write_hits += part.buffer_write_hits;
  sum.buffer_write_misses += part.buffer_write_misses;
  sum.read_modify_writes += part.read_modify_writes;
  sum.wear_levelling_stalls += part.wear_levelling_stalls;
}

/// Memory without XPLines that is mapped as persistent: battery-backed DIMMs, CXL expanders.
DramParameters dram_like(const Platform& platform) {
  DramParameters result = platform.dram;
  result.channels = platform.pm.dimms;
  result.interleave_bytes = platform.pm.interleave_bytes;
  result.read_latency_ns = platform.pm.read_hit_latency_ns;
  result.row_miss_ns = platform.pm.read_miss_latency_ns - platform.pm.read_hit_latency_ns;
  result.line_read_ns = platform.pm.line_read_ns;
  result.line_write_ns = platform.pm.line_write_ns;
  result.write_accept_ns = platform.pm.write_accept_ns;
  result.write_queue_lines = platform.pm.write_queue_lines;
  return result;
}

}  // namespace

Uncore::Uncore(const Platform& platform, const Ablation& ablation, std::size_t physical_cores)
    : holders(physical_cores * (platform.cpu.l2.bytes / 64 + 64)),
      platform_(platform),
      ablation_(ablation),
      cores_of_socket_(platform.cpu.sockets),
      pm_interleave_(platform.pm.interleave_bytes),
      pm_dimms_(platform.pm.dimms),
      dram_interleave_(platform.dram.interleave_bytes),
      dram_channels_(platform.dram.channels),
      llc_rng_(1, 2),
      leaving_(platform.cpu.sockets),
      links_(platform.cpu.sockets),
      busy_lines_(busy_slots),
      llc_latency_(from_ns(platform.cpu.llc_per_core.latency_cycles / platform.cpu.clock_ghz)),
      snoop_(from_ns(platform.cpu.snoop_ns)),
      link_latency_(from_ns(platform.link.latency_ns)),
      message_(from_ns(platform.link.message_bytes / platform.link.bandwidth_gb_s)),
      data_message_(from_ns(platform.link.data_message_bytes / platform.link.bandwidth_gb_s)) {
  const CoreParameters& cpu = platform.cpu;
  const auto disordered = static_cast<std::size_t>(std::min<std::uint64_t>(
      cpu.llc_disorder_lines, cpu.llc_per_core.bytes * cpu.cores_per_socket / 64 / 64));
  for (Leaving& leaving : leaving_) leaving.most = disordered;
  for (unsigned socket = 0; socket < cpu.sockets; ++socket) {
    llc_.emplace_back(cpu.llc_per_core.bytes * cpu.cores_per_socket / 64, cpu.llc_per_core.ways,
                      true);
    for (unsigned i = 0; i < platform.dram.channels; ++i)
      dram_.push_back(std::make_unique<DramChannel>(platform.dram, ablation));
    for (unsigned i = 0; i < platform.pm.dimms; ++i)
      if (platform.pm.behaves_as_dram)
        pm_.push_back(std::make_unique<DramChannel>(dram_like(platform), ablation));
      else
        pm_.push_back(
            std::make_unique<PmChannel>(platform.pm, ablation, socket * platform.pm.dimms + i));
  }
  for (const auto& channel : dram_) channel->counters.parts = &parts_;
  for (const auto& channel : pm_) channel->counters.parts = &parts_;
}

bool Uncore::is_pm(PageHome home) const noexcept {
  return home.memory == MemoryKind::pm && platform_.pm.present;
}

Channel& Uncore::channel_of(PageHome home, LineAddress line) {
  const unsigned node = home.node < platform_.cpu.sockets ? home.node : 0;
  if (is_pm(home)) {
    const std::uint64_t block = pm_interleave_.quotient(line * 64);
    return *pm_[node * platform_.pm.dimms + pm_dimms_.remainder(block)];
  }
  const std::uint64_t block = dram_interleave_.quotient(line * 64);
  return *dram_[node * platform_.dram.channels + dram_channels_.remainder(block)];
}

Time Uncore::cross(unsigned from, Time at, Time occupancy, std::uint64_t bytes) {
  link_bytes_ += bytes;
  return links_[from].reserve(at, occupancy);
}

Uncore::Answer Uncore::read_memory(unsigned socket, LineAddress line, Time at, bool writes,
                                   bool demand) {
  PageTable::Page& page = pages.of_line(line);
  const unsigned home = page.home.node < platform_.cpu.sockets ? page.home.node : 0;
  Channel& channel = channel_of(page.home, line);
  const std::uint64_t bit = std::uint64_t{1} << (line & 63);
  if (home == socket) {
    page.remote_lines &= ~(writes ? bit : 0);
    const ChannelRead read = channel.read(line, at, demand);
    return {at + read.latency + read.waited, read.waited, read.hold};
  }
  const auto message_bytes = static_cast<std::uint64_t>(platform_.link.message_bytes);
  const auto data_bytes = static_cast<std::uint64_t>(platform_.link.data_message_bytes);
  const Time sent = cross(socket, at, message_, message_bytes);
  const ChannelRead read = channel.read(line, sent + link_latency_ / 2, demand);
  const Time ready = sent + link_latency_ / 2 + read.latency + read.waited;
  const Time back = cross(home, ready, data_message_, data_bytes);
  if ((page.remote_lines & bit) == 0) {
    page.remote_lines |= bit;
    if (platform_.pm.directory && !ablation_.no_directory) {
      channel.write_directory(line, ready);
    }
  }
  return {back + link_latency_ / 2, read.waited + (sent - at) + (back - ready), read.hold};
}

Taken Uncore::take(std::vector<PrivateCaches>& cores, unsigned core, LineAddress line,
                   bool writes) noexcept {
  const unsigned socket = cores[core].socket;
  const CoreSet others = holders.of(line).without(core);
  Taken result;
  result.exclusive = others.empty() || writes;
  result.held = !others.empty();
  result.across = others.beyond(cores_of_socket_[socket]);
  bool dirty = false;
  if (writes) {
    others.for_each([&](unsigned other) {
      dirty = cores[other].l1.remove(line).dirty || dirty;
      dirty = cores[other].l2.remove(line).dirty || dirty;
      holders.remove(line, other);
    });
  } else if (!others.several()) {  // else no core has it exclusive or dirty (U2)
    others.for_each([&](unsigned other) {
      for (CacheTags* cache : {&cores[other].l1, &cores[other].l2}) {
        const std::uint64_t flags = cache->flags(line);
        if (flags == CacheTags::absent) continue;
        dirty = dirty || (flags & CacheTags::dirty_bit) != 0;
        cache->clear_flags(line, CacheTags::flag_bits);
      }
    });
  }
  for (unsigned at_socket = 0; at_socket < llc_.size(); ++at_socket) {
    if (llc_[at_socket].empty()) continue;
    const CacheTags::Victim found = llc_[at_socket].remove(line);
    if (!found.valid) continue;
    result.in_llc = true;
    result.across = result.across || (!result.held && at_socket != socket);
    dirty = dirty || found.dirty;
    break;
  }
  // A reader gets a clean copy of what others hold: the dirty bytes stay in the LLC of its socket.
  if (dirty && !writes && result.held) {
    const CacheTags::Victim out = llc_[socket].insert(line, CacheTags::dirty_bit);
    if (out.dirty) result.pushed_out = out;
  } else {
    result.dirty = dirty;
  }
  return result;
}

Fetch Uncore::fetch(std::vector<PrivateCaches>& cores, unsigned core, LineAddress line, Time at,
                    bool writes, bool demand) {
  const unsigned socket = cores[core].socket;
  Fetch result;
  result.taken = take(cores, core, line, writes);
  if (!result.taken.held && !result.taken.in_llc) {
    const Answer answer = read_memory(socket, line, at, writes, demand);
    result.done = answer.done;
    result.waited = answer.waited;
    result.hold = answer.hold;
    return result;
  }
  result.where = Where::llc;
  result.done = at + llc_latency_ + (result.taken.held ? snoop_ : 0);
  if (result.taken.across) {
    const unsigned other_socket = socket == 0 ? 1 : 0;
    const Time sent =
        cross(socket, at, message_, static_cast<std::uint64_t>(platform_.link.message_bytes));
    const Time back = cross(other_socket, sent + link_latency_ / 2, data_message_,
                            static_cast<std::uint64_t>(platform_.link.data_message_bytes));
    result.waited = (sent - at) + (back - sent - link_latency_ / 2);
    result.done += link_latency_ + result.waited;
  }
  return result;
}

Fetch Uncore::upgrade(std::vector<PrivateCaches>& cores, unsigned core, LineAddress line, Time at) {
  Fetch result;
  result.done = at + llc_latency_;
  result.where = Where::llc;
  bool& dirty = result.taken.dirty;
  const CoreSet others = holders.of(line).without(core);
  bool across = false;
  others.for_each([&](unsigned other) {
    dirty = cores[other].l1.remove(line).dirty || dirty;
    dirty = cores[other].l2.remove(line).dirty || dirty;
    holders.remove(line, other);
    across = across || cores[other].socket != cores[core].socket;
  });
  for (CacheTags& cache : llc_) dirty = cache.remove(line).dirty || dirty;
  if (!others.empty()) result.done += snoop_;
  if (across) {
    const Time sent = cross(cores[core].socket, at, message_,
                            static_cast<std::uint64_t>(platform_.link.message_bytes));
    result.waited = sent - at;
    result.done += link_latency_ + result.waited;
  }
  return result;
}

CacheTags::Victim Uncore::flush(std::vector<PrivateCaches>& cores, LineAddress line, bool keep) {
  CacheTags::Victim result{line, false, false};
  const auto take = [&](CacheTags& cache) {
    const std::uint64_t flags = cache.flags(line);
    if (flags == CacheTags::absent) return;
    result.valid = true;
    result.dirty = result.dirty || (flags & CacheTags::dirty_bit) != 0;
    if (keep)
      cache.clear_flags(line, CacheTags::dirty_bit);
    else
      cache.remove(line);
  };
  holders.of(line).for_each([&](unsigned core) {
    take(cores[core].l1);
    take(cores[core].l2);
    if (!keep) holders.remove(line, core);
  });
  for (CacheTags& cache : llc_) take(cache);
  return result;
}

Time Uncore::ask_home(unsigned socket, LineAddress line, Time at) {
  BusyLine& busy = busy_lines_[mix64(line) % busy_slots];
  const Time start = busy.line == line ? std::max(at, busy.until) : at;
  const Answer answer = read_directory(socket, line, start);
  busy = {line, answer.done};
  return answer.done;
}

Time Uncore::claim(unsigned socket, LineAddress line, Time at) {
  if (!platform_.pm.directory) return at;
  const PageHome page_home = pages.of_line(line).home;
  const unsigned home = page_home.node < platform_.cpu.sockets ? page_home.node : 0;
  const Time there = home == socket ? 0 : link_latency_ / 2;
  return channel_of(page_home, line).claim(line, at + there) + there;
}

Uncore::Answer Uncore::read_directory(unsigned socket, LineAddress line, Time at) {
  const PageHome page_home = pages.of_line(line).home;
  const unsigned home = page_home.node < platform_.cpu.sockets ? page_home.node : 0;
  Channel& channel = channel_of(page_home, line);
  if (home == socket) {
    const ChannelRead read = channel.read_directory(line, at);
    return {at + read.latency + read.waited, read.waited};
  }
  const auto bytes = static_cast<std::uint64_t>(platform_.link.message_bytes);
  const Time sent = cross(socket, at, message_, bytes);
  const Time arrived = sent + link_latency_ / 2;
  const ChannelRead read = channel.read_directory(line, arrived);
  const Time ready = arrived + read.latency + read.waited;
  const Time back = cross(home, ready, message_, bytes);
  return {back + link_latency_ / 2, read.waited + (sent - at) + (back - ready)};
}

ChannelWrite Uncore::write_back(unsigned socket, LineAddress line, Time at, Time extra) {
  PageTable::Page& page = pages.of_line(line);
  const unsigned home = page.home.node < platform_.cpu.sockets ? page.home.node : 0;
  Time arrival =
      at + extra +
      from_ns(is_pm(page.home) ? platform_.pm.write_accept_ns : platform_.dram.write_accept_ns);
  if (home != socket) {
    const Time sent = cross(socket, at, data_message_,
                            static_cast<std::uint64_t>(platform_.link.data_message_bytes));
    arrival += sent - at + link_latency_;
    page.remote_lines &= ~(std::uint64_t{1} << (line & 63));
  }
  return channel_of(page.home, line).write(line, arrival);
}

Time Uncore::distance_hold(unsigned socket, LineAddress line) {
  const PageHome home = pages.of_line(line).home;
  const bool across = home.node != socket && home.node < platform_.cpu.sockets;
  return from_ns((is_pm(home) ? platform_.pm.hold_ns : 0) + (across ? platform_.link.hold_ns : 0));
}

ChannelWrite Uncore::write_partial(unsigned socket, LineAddress line, Time at, Time extra) {
  const PageHome home = pages.of_line(line).home;
  const ChannelRead read = channel_of(home, line).read(line, at, true);
  return write_back(socket, line, at + read.waited + read.latency, extra);
}

CacheTags::Victim Uncore::accept_victim(unsigned socket, CacheTags::Victim victim) noexcept {
  const std::uint64_t flags = victim.dirty ? CacheTags::dirty_bit : 0;
  if (llc_[socket].touch(victim.line, flags) != CacheTags::absent) return {};
  for (unsigned other = 0; other < llc_.size(); ++other)
    if (other != socket && !llc_[other].empty() &&
        llc_[other].touch(victim.line, flags) != CacheTags::absent)
      return {};
  const CacheTags::Victim out = llc_[socket].insert(victim.line, flags);
  leaving_[socket].note_filled(victim.line);
  return out.dirty ? leaving_[socket].pass(out, llc_rng_) : CacheTags::Victim{};
}

void Uncore::Leaving::note_filled(LineAddress line) noexcept {
  run = line - last + near_lines < 2 * near_lines ? run + 1 : 0;
  last = line;
}

CacheTags::Victim Uncore::Leaving::pass(CacheTags::Victim victim, Rng& rng) noexcept {
  if (run > long_run_lines || most == 0) return victim;
  if (lines.size() < most) {
    lines.push_back(victim.line);
    return {};
  }
  std::swap(victim.line, lines[rng.below(lines.size())]);
  return victim;
}

void Uncore::add_to(Counters& counters) const {
  for (const auto& channel : dram_) {
    add(counters.dram, channel->counters);
    counters.dram.directory_writes += channel->counters.directory_writes;
  }
  for (const auto& channel : pm_) {
    add(counters.pm, channel->counters);
    counters.pm.directory_writes += channel->counters.directory_writes;
  }
  for (const auto* channels : {&dram_, &pm_})
    for (const auto& channel : *channels)
      for (std::size_t part = 0; part < most_counted_parts; ++part)
        add(counters.parts[part], channel->counters.of_part[part]);
  counters.upi_bytes += link_bytes_;
}

void Uncore::settle() {
  for (const auto& channel : pm_) channel->settle();
}

bool Uncore::conserves() const {
  return std::all_of(pm_.begin(), pm_.end(),
                     [](const auto& channel) { return channel->conserves(); });
}

}  // namespace perdure::platform
