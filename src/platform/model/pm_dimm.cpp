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
      entries_(parameters.write_buffer_xplines),
      ways_(ablation.no_buffer_sets
                ? parameters.write_buffer_xplines
                : std::min(parameters.write_buffer_ways, parameters.write_buffer_xplines)),
      sets_(parameters.write_buffer_xplines / ways_),
      partition_count_(parameters.partitions),
      used_(parameters.write_buffer_xplines / ways_, 0),
      read_tags_(parameters.read_buffer_xplines, no_line),
      read_ready_(parameters.read_buffer_xplines, 0),
      addresses_(std::max<std::uint64_t>(parameters.address_cache_bytes / 4096, 16), 16, true),
      wear_(wear_slots, Wear{no_line, 0}),
      media_read_(from_ns(parameters.media_read_ns)),
      media_write_(from_ns(parameters.media_write_ns)),
      common_read_(from_ns(parameters.common_read_ns)),
      common_write_(from_ns(parameters.common_write_ns)),
      write_under_way_(from_ns(parameters.media_write_ns * parameters.partitions)) {}

PmDimm::Set PmDimm::set_of(XpLine line) noexcept {
  // Neighbours of a page are in different sets, but the same lines of different pages are not.
  const std::uint64_t set = sets_.remainder(line ^ sets_.quotient(line));
  return {set * ways_, used_[set]};
}

std::size_t PmDimm::find(XpLine line) noexcept {
  const Set set = set_of(line);
  for (std::size_t i = set.at; i < set.at + set.used; ++i)
    if (tags_[i] == line) return i;
  return absent;
}

std::size_t PmDimm::choose_victim(Set set) noexcept {
  const auto first = entries_.begin() + static_cast<std::ptrdiff_t>(set.at);
  if (ablation_.lru_write_buffer)
    return static_cast<std::size_t>(
        std::min_element(first, first + set.used,
                         [](const Entry& a, const Entry& b) { return a.order < b.order; }) -
        entries_.begin());
  std::size_t at = set.at + static_cast<std::size_t>(rng_.below(set.used));
  for (unsigned chance = 1; chance < parameters_.victim_chances && !complete(entries_[at]);
       ++chance)
    at = set.at + static_cast<std::size_t>(rng_.below(set.used));
  return at;
}

void PmDimm::free_entry(std::size_t at) noexcept {
  const Set set = set_of(tags_[at]);
  const std::size_t last = set.at + --set.used;
  tags_[at] = tags_[last];
  entries_[at] = entries_[last];
}

Time PmDimm::end_of_write_beside(XpLine line, Time at) const noexcept {
  if (ablation_.no_write_hindrance) return at;
  const std::uint64_t partition = partition_count_.remainder(mix64(line));
  Time end = at;
  if (writes_.busy_until() > at + write_under_way_) {
    // One write follows another, in partitions that are as good as drawn; the ring below has later
    // ones only.
    const std::uint64_t newest = at / media_write_;
    for (std::uint64_t since = 0; since < parameters_.partitions && since <= newest; ++since)
      if (partition_count_.remainder(mix64(newest - since)) == partition)
        return std::max(at, (newest - since) * media_write_ + write_under_way_);
    return at;
  }
  // A line's own last version is in the buffer until the media have it.
  for (const Written& written : written_)
    if (written.line != no_line && written.line != line &&
        partition_count_.remainder(mix64(written.line)) == partition &&
        written.end - media_write_ <= at)
      end = std::max(end, written.end - media_write_ + write_under_way_);
  return end;
}

Time PmDimm::stall_of_wear(XpLine line, ChannelCounters& counters) {
  if (ablation_.no_wear_levelling) return 0;
  Wear& slot = wear_[mix64(line) % wear_slots];
  if (slot.line != line) {
    // A line that is written rarely loses its slot to one that is written all the time.
    if (slot.writes > 1) {
      slot.writes -= 2;
      return 0;
    }
    slot = {line, 0};
  }
  if (++slot.writes < parameters_.wear_levelling_writes) return 0;
  slot.writes = 0;
  counters.add(line << 2, &MemoryCounters::wear_levelling_stalls, 1);
  return from_ns(parameters_.wear_levelling_stall_ns);
}

Time PmDimm::write_out(std::size_t at, Time from, ChannelCounters& counters) {
  const XpLine line = tags_[at];
  const bool partial = entries_[at].pieces != whole;
  Time occupancy = media_write_;
  Time common = common_write_;
  if (partial && !ablation_.no_read_modify_write) {
    counters.add(line << 2, &MemoryCounters::read_modify_writes, 1);
    if (parameters_.fetches_on_open == false)
      counters.add(line << 2, &MemoryCounters::media_read_bytes, xpline_bytes);
    occupancy += from_ns(parameters_.read_modify_write_ns);
    common += from_ns(parameters_.read_modify_write_ns);
  }
  counters.add(line << 2, &MemoryCounters::media_write_bytes, xpline_bytes);
  pieces_out_ += static_cast<unsigned>(std::popcount(entries_[at].pieces));
  // The DIMM writes its own tables, too: one XPLine for every `writes_per_table_write`.
  if (++media_writes_ % parameters_.writes_per_table_write == 0) {
    counters.add(line << 2, &MemoryCounters::media_write_bytes, xpline_bytes);
    occupancy += media_write_;
    common += common_write_;
  }
  occupancy += stall_of_wear(line, counters);
  const Time start = writes_.reserve(std::max(from, common_.busy_until()), occupancy);
  common_.delay(start, common);
  written_[next_written_++ % written_.size()] = {line, start + media_write_};
  free_entry(at);
  return start;
}

void PmDimm::write_out_complete(Time now, ChannelCounters& counters) {
  while (first_completed_ != completed_.size()) {
    const Completion& next = completed_[first_completed_];
    const Time start = std::max({writes_.busy_until(), common_.busy_until(), next.at});
    if (start > now) return;
    const std::size_t at = find(next.line);
    ++first_completed_;
    if (at != absent && complete(entries_[at])) write_out(at, start, counters);
  }
  completed_.clear();
  first_completed_ = 0;
}

Time PmDimm::write(LineAddress line, Time at, ChannelCounters& counters) {
  return write_piece(line, at, counters, false);
}

Time PmDimm::write_directory(LineAddress line, Time at, ChannelCounters& counters) {
  return write_piece(line, at, counters, true);
}

Time PmDimm::write_piece(LineAddress line, Time at, ChannelCounters& counters, bool directory) {
  const XpLine xpline = line >> 2;
  const auto piece = static_cast<std::uint8_t>(1U << (line & 3));
  counters.add(line, &MemoryCounters::controller_write_bytes, 64);
  ++pieces_in_;
  write_out_complete(at, counters);
  Time taken = at;
  std::size_t at_entry = find(xpline);
  if (at_entry != absent && complete(entries_[at_entry])) {
    // A whole line is already being written to the media: the new bytes start the next version.
    taken = write_out(at_entry, at, counters);
    at_entry = absent;
  }
  if (at_entry == absent) {
    counters.add(line, &MemoryCounters::buffer_write_misses, 1);
    const Set set = set_of(xpline);
    if (set.used == ways_) taken = std::max(taken, write_out(choose_victim(set), at, counters));
    // What was read is now put together here, and out of date there.
    const bool known = take_from_read_buffer(xpline) || is_being_written(xpline, at);
    const bool fetched = parameters_.fetches_on_open && !ablation_.no_read_modify_write && !known;
    if (fetched) counters.add(line, &MemoryCounters::media_read_bytes, xpline_bytes);
    at_entry = set.at + set.used++;
    tags_[at_entry] = xpline;
    entries_[at_entry] = {};
    entries_[at_entry].known = known || fetched;
  } else {
    counters.add(line, &MemoryCounters::buffer_write_hits, 1);
  }
  Entry& entry = entries_[at_entry];
  if ((entry.pieces & piece) != 0) ++pieces_overwritten_;
  if (!directory)
    entry.directory = static_cast<std::uint8_t>(entry.directory & ~piece);
  else if ((entry.pieces & piece) == 0)
    entry.directory |= piece;
  entry.pieces |= piece;
  if (directory) entry.directory_from = std::min(entry.directory_from, at);
  entry.order = ++clock_;
  if (complete(entry)) note_completion(xpline, at);
  return taken;
}

void PmDimm::note_completion(XpLine line, Time at) {
  if (completed_.size() == completed_.capacity() && first_completed_ != 0) {
    completed_.erase(completed_.begin(),
                     completed_.begin() + static_cast<std::ptrdiff_t>(first_completed_));
    first_completed_ = 0;
  }
  completed_.push_back({line, at});
}

bool PmDimm::take_from_read_buffer(XpLine line) noexcept {
  const auto found = std::find(read_tags_.begin(), read_tags_.end(), line);
  if (found == read_tags_.end()) return false;
  *found = no_line;
  return true;
}

bool PmDimm::is_being_written(XpLine line, Time at) const noexcept {
  return std::any_of(written_.begin(), written_.end(), [&](const Written& written) {
    return written.line == line && written.end > at;
  });
}

PmDimm::Read PmDimm::read(LineAddress line, Time at, ChannelCounters& counters) {
  const XpLine xpline = line >> 2;
  const unsigned piece = 1U << (line & 3);
  write_out_complete(at, counters);
  const std::size_t entry = find(xpline);
  if (entry != absent && entries_[entry].directory_from <= at &&
      (entries_[entry].directory & piece) != 0) {
    // Data beside changed directory bits cannot be read before the line is on the media. Other
    // lines of the XPLine are where they were.
    const Time written = write_out(entry, at, counters) + media_write_;
    take_from_read_buffer(xpline);
    Read result = read_media(line, written, counters);
    result.waited += written - at;
    return result;
  }
  if (entry != absent && (entries_[entry].known || (entries_[entry].pieces & piece) != 0)) {
    counters.add(line, &MemoryCounters::controller_read_bytes, 64);
    counters.add(line, &MemoryCounters::buffer_read_hits, 1);
    return {0, true, true};
  }
  for (std::size_t i = 0; i < read_tags_.size(); ++i) {
    if (read_tags_[i] != xpline) continue;
    counters.add(line, &MemoryCounters::controller_read_bytes, 64);
    counters.add(line, &MemoryCounters::buffer_read_hits, 1);
    // Its media read may still be under way: then this request waits for the same answer.
    return {read_ready_[i] <= at ? 0 : read_ready_[i] - at, true, true};
  }
  return read_media(line, at, counters);
}

PmDimm::Read PmDimm::read_media(LineAddress line, Time at, ChannelCounters& counters) {
  const XpLine xpline = line >> 2;
  Read result;
  counters.add(line, &MemoryCounters::controller_read_bytes, 64);
  counters.add(line, &MemoryCounters::buffer_read_misses, 1);
  counters.add(line, &MemoryCounters::media_read_bytes, xpline_bytes);
  const XpLine region = xpline >> 4;
  if (!ablation_.no_address_cache) {
    result.address_hit = addresses_.touch(region, 0) != CacheTags::absent;
    if (!result.address_hit) addresses_.insert(region, 0);
  }
  const Time start = reads_.reserve(end_of_write_beside(xpline, at), media_read_);
  common_.delay(at, common_read_);
  result.waited = start - at;
  const auto same = std::find(read_tags_.begin(), read_tags_.end(), xpline);
  const std::size_t slot = same != read_tags_.end()
                               ? static_cast<std::size_t>(same - read_tags_.begin())
                               : static_cast<std::size_t>(rng_.below(read_tags_.size()));
  read_tags_[slot] = xpline;
  const double until_all = ablation_.no_early_lines
                               ? parameters_.read_miss_latency_ns - parameters_.read_hit_latency_ns
                               : parameters_.piece_read_ns;
  read_ready_[slot] =
      start + from_ns(until_all + (result.address_hit ? 0 : parameters_.address_miss_ns));
  return result;
}

bool PmDimm::conserves() const noexcept {
  return pieces_in_ == pieces_out_ + pieces_overwritten_ + dirty_bytes() / 64;
}

std::uint64_t PmDimm::dirty_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t set = 0; set < used_.size(); ++set)
    for (std::size_t i = 0; i < used_[set]; ++i)
      bytes += 64 * static_cast<std::uint64_t>(std::popcount(entries_[set * ways_ + i].pieces));
  return bytes;
}

}  // namespace perdure::platform
