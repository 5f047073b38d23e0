#include "platform/model/pm_dimm.h"

#include <algorithm>
#include <bit>

namespace perdure::platform {
namespace {

constexpr std::uint64_t no_line = ~std::uint64_t{0};
constexpr std::size_t absent = ~std::size_t{0};
constexpr std::size_t wear_slots = 1024;
constexpr std::uint64_t xpline_bytes = 256;

}  // namespace

PmDimm::PmDimm(const PmParameters& parameters, const Ablation& ablation, std::uint64_t seed)
    : parameters_(parameters),
      ablation_(ablation),
      rng_(seed, 1),
      tags_(parameters.write_buffer_xplines, no_line),
      pieces_(parameters.write_buffer_xplines, 0),
      directory_(parameters.write_buffer_xplines, 0),
      order_(parameters.write_buffer_xplines, 0),
      read_tags_(parameters.read_buffer_xplines, no_line),
      read_ready_(parameters.read_buffer_xplines, 0),
      addresses_(std::max<std::uint64_t>(parameters.address_cache_bytes / 4096, 16), 16, true),
      wear_(wear_slots, Wear{no_line, 0}),
      media_read_(from_ns(parameters.media_read_ns)),
      media_write_(from_ns(parameters.media_write_ns)),
      shared_read_(from_ns(parameters.partition_read_ns)),
      shared_write_(from_ns(parameters.partition_write_ns)) {}

std::size_t PmDimm::find(XpLine line) const noexcept {
  for (std::size_t i = 0; i < used_; ++i)
    if (tags_[i] == line) return i;
  return absent;
}

std::size_t PmDimm::choose_victim() noexcept {
  if (ablation_.lru_write_buffer)
    return static_cast<std::size_t>(
        std::min_element(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(used_)) -
        order_.begin());
  std::size_t at = static_cast<std::size_t>(rng_.below(used_));
  for (unsigned chance = 1; chance < parameters_.victim_chances && pieces_[at] != whole; ++chance)
    at = static_cast<std::size_t>(rng_.below(used_));
  return at;
}

void PmDimm::free_entry(std::size_t at) noexcept {
  --used_;
  tags_[at] = tags_[used_];
  pieces_[at] = pieces_[used_];
  directory_[at] = directory_[used_];
  order_[at] = order_[used_];
}

Time PmDimm::stall_of_wear(XpLine line, MemoryCounters& counters) {
  if (ablation_.no_wear_levelling) return 0;
  Wear& slot = wear_[mix64(line) % wear_slots];
  if (slot.line != line) {
    // A line that is written now and then loses its slot to one that is written all the time.
    if (slot.writes > 1) {
      slot.writes -= 2;
      return 0;
    }
    slot = {line, 0};
  }
  if (++slot.writes < parameters_.wear_levelling_writes) return 0;
  slot.writes = 0;
  ++counters.wear_levelling_stalls;
  return from_ns(parameters_.wear_levelling_stall_ns);
}

Time PmDimm::write_out(std::size_t at, Time from, MemoryCounters& counters) {
  const XpLine line = tags_[at];
  const bool partial = pieces_[at] != whole;
  Time occupancy = media_write_;
  Time shared = shared_write_;
  if (partial && !ablation_.no_read_modify_write) {
    ++counters.read_modify_writes;
    if (parameters_.fetches_on_open == false) counters.media_read_bytes += xpline_bytes;
    occupancy += from_ns(parameters_.read_modify_write_ns);
    shared += from_ns(parameters_.read_modify_write_ns);
  }
  counters.media_write_bytes += xpline_bytes;
  pieces_out_ += static_cast<unsigned>(std::popcount(pieces_[at]));
  // The DIMM's own tables are written too: one XPLine in so many.
  if (++media_writes_ % parameters_.writes_per_table_write == 0) {
    counters.media_write_bytes += xpline_bytes;
    occupancy += media_write_;
    shared += shared_write_;
  }
  occupancy += stall_of_wear(line, counters);
  const Time start = writes_.reserve(std::max(from, partitions_.busy_until()), occupancy);
  partitions_.delay(start, shared);
  free_entry(at);
  return start;
}

Time PmDimm::write(LineAddress line, Time at, MemoryCounters& counters, bool directory) {
  const XpLine xpline = line >> 2;
  const unsigned piece = 1U << (line & 3);
  counters.controller_write_bytes += 64;
  ++pieces_in_;
  Time taken = at;
  std::size_t entry = find(xpline);
  if (entry != absent && pieces_[entry] == whole) {
    // A whole line is on its way to the media already: the new bytes start the next version.
    taken = write_out(entry, at, counters);
    entry = absent;
  }
  if (entry != absent) {
    ++counters.buffer_write_hits;
    if ((pieces_[entry] & piece) != 0) ++pieces_overwritten_;
    pieces_[entry] = static_cast<std::uint8_t>(pieces_[entry] | piece);
    order_[entry] = ++clock_;
    directory_[entry] |= directory ? 1 : 0;
    return taken;
  }
  ++counters.buffer_write_misses;
  if (used_ == tags_.size()) taken = std::max(taken, write_out(choose_victim(), at, counters));
  if (parameters_.fetches_on_open && !ablation_.no_read_modify_write && !in_read_buffer(xpline))
    counters.media_read_bytes += xpline_bytes;
  tags_[used_] = xpline;
  pieces_[used_] = static_cast<std::uint8_t>(piece);
  order_[used_] = ++clock_;
  directory_[used_] = directory ? 1 : 0;
  ++used_;
  return taken;
}

bool PmDimm::in_read_buffer(XpLine line) const noexcept {
  return std::find(read_tags_.begin(), read_tags_.end(), line) != read_tags_.end();
}

PmDimm::Read PmDimm::read(LineAddress line, Time at, MemoryCounters& counters) {
  const XpLine xpline = line >> 2;
  const unsigned piece = 1U << (line & 3);
  counters.controller_read_bytes += 64;
  Read result;
  const std::size_t entry = find(xpline);
  // Data beside changed directory bits cannot be read before the line is whole on the media.
  const bool hazard =
      entry != absent && directory_[entry] != 0 && parameters_.read_waits_for_directory;
  if (entry != absent && !hazard && (pieces_[entry] & piece) != 0) {
    ++counters.buffer_read_hits;
    result.hit = true;
    return result;
  }
  Time from = at;
  if (hazard) {
    from = write_out(entry, at, counters) + media_write_;
    const auto stale = std::find(read_tags_.begin(), read_tags_.end(), xpline);
    if (stale != read_tags_.end()) *stale = no_line;
  }
  for (std::size_t i = 0; i < read_tags_.size(); ++i) {
    if (read_tags_[i] != xpline) continue;
    ++counters.buffer_read_hits;
    // Its media read may still be under way: then this request waits for the same answer.
    result.hit = true;
    result.waited = read_ready_[i] <= at ? 0 : read_ready_[i] - at;
    return result;
  }
  ++counters.buffer_read_misses;
  counters.media_read_bytes += xpline_bytes;
  const XpLine region = xpline >> 4;
  if (!ablation_.no_address_cache) {
    result.address_hit = addresses_.touch(region, 0) != CacheTags::absent;
    if (!result.address_hit) addresses_.insert(region, 0);
  }
  const Time start = reads_.reserve(from, media_read_);
  partitions_.delay(at, shared_read_);
  result.waited = start - at;
  const std::size_t slot = static_cast<std::size_t>(rng_.below(read_tags_.size()));
  read_tags_[slot] = xpline;
  read_ready_[slot] =
      start + from_ns(parameters_.read_miss_latency_ns - parameters_.read_hit_latency_ns +
                      (result.address_hit ? 0 : parameters_.address_miss_ns));
  return result;
}

bool PmDimm::conserves() const noexcept {
  return pieces_in_ == pieces_out_ + pieces_overwritten_ + dirty_bytes() / 64;
}

std::uint64_t PmDimm::dirty_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < used_; ++i)
    bytes += 64 * static_cast<std::uint64_t>(std::popcount(pieces_[i]));
  return bytes;
}

}  // namespace perdure::platform
