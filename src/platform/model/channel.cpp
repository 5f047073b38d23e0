#include "platform/model/channel.h"

#include <algorithm>

namespace perdure::platform {

std::size_t Outstanding::at(Time now) noexcept {
  const std::uint64_t present = now / interval;
  for (; first_ < present && count_ != 0; ++first_) {
    std::uint32_t& ending = ending_[first_ & (ending_.size() - 1)];
    count_ -= ending;
    ending = 0;
  }
  first_ = std::max(first_, present);
  return count_;
}

void Outstanding::push(Time end) noexcept {
  // What ends beyond the intervals kept counts until the last of them.
  const std::uint64_t last = first_ + ending_.size() - 1;
  const std::uint64_t ends = std::min(std::max(end / interval, first_), last);
  ++ending_[ends & (ending_.size() - 1)];
  ++count_;
}

void LaterWrites::push(LineAddress line, Time at) {
  if (first_ == writes_.size()) {
    writes_.clear();
    first_ = 0;
  } else if (first_ >= 256) {
    writes_.erase(writes_.begin(), writes_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  std::size_t place = writes_.size();
  while (place > first_ && writes_[place - 1].at > at) --place;
  writes_.insert(writes_.begin() + static_cast<std::ptrdiff_t>(place), {line, at});
}

DramChannel::DramChannel(const DramParameters& parameters, const Ablation& ablation)
    : parameters_(parameters),
      banks_(parameters.banks),
      drained_(parameters.write_queue_lines),
      line_read_(from_ns(parameters.line_read_ns)),
      line_write_(from_ns(parameters.line_write_ns)),
      turnaround_(from_ns(parameters.turnaround_ns)),
      burst_(ablation.no_write_hindrance ? 0 : from_ns(parameters.write_burst_ns)),
      row_miss_(from_ns(parameters.row_miss_ns)),
      latency_(from_ns(parameters.read_latency_ns)),
      row_cycle_(from_ns(parameters.row_cycle_ns)),
      write_recovery_(from_ns(parameters.write_recovery_ns)),
      hold_(from_ns(parameters.read_hold_ns)),
      interleave_(parameters.interleave_bytes / 64),
      channels_(parameters.channels),
      lines_of_row_(parameters.row_bytes / 64),
      bank_count_(parameters.banks) {}

DramChannel::Place DramChannel::place_of(LineAddress line) noexcept {
  const std::uint64_t block = interleave_.quotient(line);
  const std::uint64_t here =
      channels_.quotient(block) * parameters_.interleave_bytes / 64 + interleave_.remainder(line);
  const std::uint64_t column = bank_count_.quotient(here);
  return {banks_[bank_count_.remainder(here)], lines_of_row_.quotient(column)};
}

ChannelWrite DramChannel::write(LineAddress line, Time at) {
  counters.add(line, &MemoryCounters::controller_write_bytes, 64);
  Pending& pending = pending_[mix64(line) % pending_.size()];
  if (pending.line == line && pending.until > at) return {at, pending.until};
  counters.add(line, &MemoryCounters::media_write_bytes, 64);
  const Time accepted = std::max(at, drained_.oldest());
  const Time ready = place_of(line).bank.writes.reserve(accepted, row_cycle_ + write_recovery_);
  const Time drained = writes_.reserve(ready, line_write_) + line_write_;
  drained_.push(drained);
  last_drained_ = std::max(last_drained_, drained);
  pending = {line, drained};
  return {accepted, drained};
}

void DramChannel::write_directory(LineAddress line, Time at) {
  counters.add(line, &MemoryCounters::directory_writes, 1);
  write(line, at);
}

ChannelRead DramChannel::read(LineAddress line, Time at, bool /*demand*/) {
  counters.add(line, &MemoryCounters::controller_read_bytes, 64);
  counters.add(line, &MemoryCounters::media_read_bytes, 64);
  const Place place = place_of(line);
  const bool missed = place.bank.read_row != place.row;
  place.bank.read_row = place.row;
  const Time ready = place.bank.reads.reserve(at, row_cycle_);
  place.bank.writes.delay(ready, row_cycle_);
  const bool among_writes = last_drained_ > at;
  // Bursts follow one another while there are writes; what is left of one is drawn.
  const Time rest = among_writes && burst_ != 0 ? mix64(line ^ at) % burst_ : 0;
  const Time start = reads_.reserve(std::max(ready, at + rest), line_read_);
  writes_.delay(start, line_read_ + (among_writes ? turnaround_ : 0));
  return {latency_ + (missed ? row_miss_ : 0), start - at, hold_};
}

PmChannel::PmChannel(const PmParameters& parameters, const Ablation& ablation, std::uint64_t seed)
    : parameters_(parameters),
      ablation_(ablation),
      rng_(seed, 0),
      dimm_(parameters, ablation, seed),
      drained_(parameters.write_queue_lines),
      durable_(parameters.durable_queue_lines),
      line_read_(from_ns(parameters.line_read_ns)),
      line_write_(from_ns(parameters.line_write_ns)),
      hit_latency_(from_ns(parameters.read_hit_latency_ns)),
      miss_latency_(from_ns(parameters.read_miss_latency_ns)),
      address_miss_(from_ns(parameters.address_miss_ns)) {}

LineAddress PmChannel::draw(std::vector<LineAddress>& waiting) {
  if (ablation_.in_order_arrival) {
    const LineAddress line = waiting.front();
    waiting.erase(waiting.begin());
    return line;
  }
  const std::size_t at = static_cast<std::size_t>(rng_.below(waiting.size()));
  const LineAddress line = waiting[at];
  waiting[at] = waiting.back();
  waiting.pop_back();
  return line;
}

ChannelWrite PmChannel::write(LineAddress line, Time at) {
  write_due_directories(at);
  const Time entered = std::max({at, drained_.oldest(), last_entered_});
  last_entered_ = entered;
  const std::size_t waiting =
      entered > at ? static_cast<std::size_t>(static_cast<double>(waiting_writes_.at(at) + 1) *
                                              parameters_.competing_write_share)
                   : 0;
  if (entered > at) waiting_writes_.push(entered);
  competing_writes_.push_back(line);
  Time drained = std::max(entered, last_drained_);
  while (competing_writes_.size() > waiting) {
    const Time sent = write_bus_.reserve(drained, line_write_) + line_write_;
    drained = std::max(drained, dimm_.write(draw(competing_writes_), sent, counters));
  }
  last_drained_ = drained;
  drained_.push(drained);
  // Only the last few of the lines in order are at the controller; the others are in transit.
  const Time accepted = std::max(entered, durable_.oldest());
  durable_.push(drained);
  return {accepted, drained};
}

void PmChannel::write_directory(LineAddress line, Time at) {
  counters.add(line, &MemoryCounters::directory_writes, 1);
  directories_.push(line, at);
}

void PmChannel::write_due_directories(Time now) {
  while (directories_.due(now)) {
    const LaterWrites::Write due = directories_.pop();
    const Time sent = std::max(due.at, drained_.oldest());
    last_drained_ = std::max(last_drained_, dimm_.write_directory(due.line, sent, counters));
    drained_.push(last_drained_);
    durable_.push(last_drained_);
  }
}

ChannelRead PmChannel::read(LineAddress line, Time at, bool demand) {
  write_due_directories(at);
  const std::size_t under_way = outstanding_reads_.at(at);
  const std::size_t waiting =
      under_way >= parameters_.read_queue_lines
          ? std::min<std::size_t>(under_way + 1 - parameters_.read_queue_lines,
                                  parameters_.competing_read_lines)
          : 0;
  if (!demand) return note_read(read_dimm(line, at), at, false);
  competing_reads_.push_back(line);
  ChannelRead answer{hit_latency_, 0};
  bool served = false;
  while (competing_reads_.size() > waiting) {
    const ChannelRead one = read_dimm(draw(competing_reads_), at);
    if (!served || one.waited + one.latency > answer.waited + answer.latency) answer = one;
    served = true;
  }
  // Its place is after those whose turn came first.
  if (!served && last_read_end_ > at + hit_latency_)
    answer.waited = last_read_end_ - at - hit_latency_;
  return note_read(answer, at, true);
}

ChannelRead PmChannel::read_directory(LineAddress line, Time at) {
  write_due_directories(at);
  const PmDimm::Read read = dimm_.read_media(line, at, counters);
  return note_read({miss_latency_ + (read.address_hit ? 0 : address_miss_), read.waited}, at, true);
}

Time PmChannel::claim(LineAddress line, Time at) {
  counters.add(line, &MemoryCounters::controller_read_bytes, 64);
  return read_bus_.reserve(at, line_read_) + hit_latency_;
}

ChannelRead PmChannel::read_dimm(LineAddress line, Time at) {
  const PmDimm::Read read = dimm_.read(line, at, counters);
  return {read.hit ? hit_latency_ : miss_latency_ + (read.address_hit ? 0 : address_miss_),
          read.waited};
}

ChannelRead PmChannel::note_read(ChannelRead answer, Time at, bool demand) {
  const Time bus = read_bus_.reserve(at, line_read_);
  answer.waited = std::max(answer.waited, bus - at);
  const Time end = at + answer.latency + answer.waited;
  last_read_end_ = std::max(last_read_end_, end);
  if (demand) outstanding_reads_.push(end);
  return answer;
}

void PmChannel::settle() {
  write_due_directories(~Time{0});
  while (!competing_writes_.empty()) dimm_.write(draw(competing_writes_), last_drained_, counters);
  while (!competing_reads_.empty()) dimm_.read(draw(competing_reads_), last_drained_, counters);
}

}  // namespace perdure::platform
