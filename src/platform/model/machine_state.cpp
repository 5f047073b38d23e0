#include "platform/model/machine_state.h"

#include <algorithm>
#include <map>

namespace perdure::platform {
namespace {

/// cpu numbers run over all cores of all sockets, then over their second hardware threads.
std::vector<unsigned> physical_cores(const Platform& platform, std::span<const unsigned> cpus) {
  const unsigned cores = platform.cpu.sockets * platform.cpu.cores_per_socket;
  std::vector<unsigned> result;
  for (const unsigned cpu : cpus) result.push_back(cpu % cores);
  return result;
}

std::size_t count_distinct(std::vector<unsigned> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return static_cast<std::size_t>(std::unique(numbers.begin(), numbers.end()) - numbers.begin());
}

constexpr double instructions_per_access = 3;
constexpr double instructions_per_cycle = 2;

}  // namespace

Machine::State::State(const Platform& with, std::span<const unsigned> cpus, const Ablation& without)
    : platform(with),
      ablation(without),
      clocks(cpus.size(), 0),
      uncore(platform, ablation, count_distinct(physical_cores(with, cpus))) {
  const CoreParameters& cpu = platform.cpu;
  access_cost = cycles(cpu.access_cycles);
  l1_latency = cycles(cpu.l1.latency_cycles);
  l2_latency = cycles(cpu.l2.latency_cycles);
  stream_extra = from_ns(cpu.stream_extra_ns);
  stream_again = from_ns(cpu.stream_again_ns);
  stream_hold = from_ns(cpu.stream_hold_ns);
  flush_hold = from_ns(cpu.flush_hold_ns);
  hit_places = without.no_hit_places ? 0 : cpu.store_hit_places;
  flush_gap = without.no_flush_gap ? 0 : from_ns(cpu.flush_gap_ns);
  second_tlb_cost = cycles(cpu.second_tlb_cycles);
  walk_cost = cycles(cpu.page_walk_cycles);
  prefetch_patience = from_ns(cpu.prefetch_patience_ns);
  flush_cost = cycles(cpu.flush_cycles);
  stream_cost = cycles(cpu.stream_cycles);
  fence_cost = cycles(cpu.fence_cycles);
  atomic_cost = cycles(cpu.atomic_cycles);
  pause_cost = cycles(cpu.pause_cycles);
  window_positions = cpu.reorder_buffer_accesses * position_unit;
  compute_positions =
      static_cast<std::uint64_t>(65536.0 * cpu.clock_ghz / 1000.0 * instructions_per_cycle /
                                 instructions_per_access * static_cast<double>(position_unit));
  page_shift = cpu.huge_pages ? 21 - 6 : 12 - 6;
  streamer = cpu.streamer && !ablation.no_prefetchers;
  adjacent_line = cpu.adjacent_line && !ablation.no_prefetchers;
  std::map<unsigned, unsigned> numbers;
  for (const unsigned physical : physical_cores(platform, cpus)) {
    const unsigned socket = physical / cpu.cores_per_socket;
    const auto [at, fresh] = numbers.try_emplace(physical, static_cast<unsigned>(caches.size()));
    if (fresh) {
      uncore.place_core(at->second, socket);
      caches.emplace_back(cpu, socket);
    }
    ++caches[at->second].threads;
    cores.emplace_back(cpu, at->second, socket);
  }
}

void Machine::State::wait_for(unsigned core, const WindowEntry& entry) noexcept {
  const Time now = clocks[core];
  if (entry.end <= now) return;
  const Time queueing = std::min(entry.waited, entry.end - now);
  advance(core, entry.end - queueing, entry.head);
  advance(core, entry.end, &TimeSplit::memory_queueing);
}

void Machine::State::retire_oldest(unsigned core) noexcept {
  CoreState& c = cores[core];
  while (!c.window.empty()) {
    const WindowEntry& oldest = c.window.front();
    if (oldest.end > clocks[core]) {
      if (oldest.position + window_positions > c.position) return;
      wait_for(core, oldest);
    }
    c.window.pop();
  }
}

void Machine::State::enter_window_late(unsigned core, Time end, Time waited,
                                       Time TimeSplit::*head) noexcept {
  CoreState& c = cores[core];
  if (!c.window.empty() && c.window.back().end >= end) return;
  if (c.window.full()) {
    wait_for(core, c.window.front());
    c.window.pop();
  }
  c.window.push({c.position, end, waited, head});
}

Time Machine::State::translate_page(CoreState& c, std::uint64_t page) noexcept {
  c.last_page = page;
  if (c.tlb.touch(page, 0) != CacheTags::absent) return 0;
  c.tlb.insert(page, 0);
  if (c.second_tlb.touch(page, 0) != CacheTags::absent) return second_tlb_cost;
  c.second_tlb.insert(page, 0);
  ++counters.tlb_misses;
  return second_tlb_cost + walk_cost;
}

Time Machine::State::take_fill_buffer(unsigned core, Time at, unsigned& slot) noexcept {
  CoreState& c = cores[core];
  slot = 0;
  for (unsigned i = 1; i < c.fills.size(); ++i)
    if (c.fills[i].free < c.fills[slot].free) slot = i;
  const Time free = c.fills[slot].free;
  if (free > clocks[core]) advance(core, free, &TimeSplit::memory_queueing);
  return std::max(at, free);
}

void Machine::State::insert_l1(unsigned core, LineAddress line, std::uint64_t flags) {
  PrivateCaches& own = caches[cores[core].physical];
  const CacheTags::Victim out = own.l1.insert(line, flags);
  if (out.dirty) own.l2.touch(out.line, CacheTags::dirty_bit);
}

CacheTags::Victim Machine::State::put_in_l2(unsigned physical, LineAddress line,
                                            std::uint64_t flags) noexcept {
  PrivateCaches& own = caches[physical];
  uncore.holders.add(line, physical);
  CacheTags::Victim out = own.l2.insert(line, flags);
  if (!out.valid) return {};
  out.dirty = own.l1.remove(out.line).dirty || out.dirty;
  uncore.holders.remove(out.line, physical);
  return uncore.accept_victim(own.socket, out);
}

void Machine::State::insert_l2(unsigned core, LineAddress line, std::uint64_t flags) {
  const CacheTags::Victim evicted = put_in_l2(cores[core].physical, line, flags);
  if (evicted.dirty) evict_to_memory(core, evicted.line);
}

void Machine::State::note_sent(unsigned core, Time taken, Time TimeSplit::*head) noexcept {
  CoreState& c = cores[core];
  advance(core, c.write_backs.oldest(), head);
  c.write_backs.push(taken);
}

void Machine::State::evict_to_memory(unsigned core, LineAddress line) {
  note_sent(core, uncore.write_back(cores[core].socket, line, clocks[core], 0).taken,
            &TimeSplit::memory_queueing);
}

Fetch Machine::State::bring(unsigned core, LineAddress line, Time at, bool writes) {
  CoreState& c = cores[core];
  ++counters.l2_misses;
  send_due(core);
  unsigned slot = 0;
  const Time start = take_fill_buffer(core, at, slot);
  const Fetch fetch = uncore.fetch(caches, c.physical, line, start, writes);
  ++(fetch.where == Where::llc ? counters.llc_hits : counters.llc_misses);
  c.recent_wait = fetch.waited;
  c.fills.set(slot, {line, fetch.done, fetch.done + fetch.hold});
  c.latest_fill = std::max(c.latest_fill, fetch.done);
  const std::uint64_t flags = fetch.taken.flags();
  insert_l2(core, line, flags);
  insert_l1(core, line, flags & CacheTags::exclusive_bit);
  if (fetch.taken.pushed_out.dirty) evict_to_memory(core, fetch.taken.pushed_out.line);
  return fetch;
}

void Machine::State::touch(const Touch& touch) noexcept {
  // The same again changes nothing.
  if (touched_ != warmed_ && touches_[(touched_ - 1) % touches_waiting] == touch) return;
  const PrivateCaches& own = caches[cores[touch.core].physical];
  if (!own.l1.holds(touch.line)) {
    own.l2.prefetch_on_host(touch.line);
    uncore.prefetch_on_host(touch.line);
    if (adjacent_line) uncore.prefetch_on_host(touch.line ^ 1);
  }
  if (touched_ - warmed_ == touches_waiting) warm(touches_[warmed_++ % touches_waiting]);
  touches_[touched_++ % touches_waiting] = touch;
}

void Machine::State::finish_touches() noexcept {
  while (warmed_ != touched_) warm(touches_[warmed_++ % touches_waiting]);
}

void Machine::State::warm(const Touch& touch) noexcept {
  const auto [line, core, writes] = touch;
  const unsigned physical = cores[core].physical;
  PrivateCaches& own = caches[physical];
  constexpr std::uint64_t both = CacheTags::flag_bits;
  const std::uint64_t had = own.l1.touch(line, 0);
  if (had != CacheTags::absent && (!writes || (had & CacheTags::exclusive_bit) != 0)) {
    own.l1.touch(line, writes ? CacheTags::dirty_bit : 0);
    return;
  }
  std::uint64_t flags = own.l2.touch(line, 0);
  const bool missed = flags == CacheTags::absent;
  if (missed || (writes && (flags & CacheTags::exclusive_bit) == 0))
    flags = uncore.take(caches, physical, line, writes).flags();
  if (missed)
    put_in_l2(physical, line, flags);
  else
    own.l2.touch(line, flags);
  own.l1.remove(line);
  insert_l1(core, line, writes ? both : flags & CacheTags::exclusive_bit);
  // A longer run's caches also hold prefetched lines, and therefore fewer dirty ones.
  if (streamer || (adjacent_line && missed)) run_prefetchers(core, line, 0, missed, true);
}

Time Machine::State::load_line(unsigned core, LineAddress line, Time ready) {
  CoreState& c = cores[core];
  PrivateCaches& own = caches[c.physical];
  const Time at = issue_time(c, clocks[core], ready) + translate(c, line);
  if (own.l1.touch(line, 0) != CacheTags::absent) {
    ++counters.l1_hits;
    Time end = at + l1_latency;
    if (c.latest_fill > end) end = std::max(end, c.fills.end_of(line));
    enter_window(core, end, 0, &TimeSplit::l1);
    return end;
  }
  ++counters.l1_misses;
  const std::uint64_t in_l2 = own.l2.touch(line, 0);
  if (in_l2 != CacheTags::absent) {
    ++counters.l2_hits;
    Time end = at + l2_latency;
    Time TimeSplit::*head = &TimeSplit::l2;
    if (c.latest_prefetch > end) {
      const Time arrives = c.prefetches.end_of(line);
      if (arrives > end) {
        end = arrives;
        head = &TimeSplit::media;
      }
    }
    insert_l1(core, line, in_l2 & CacheTags::exclusive_bit);
    enter_window(core, end, 0, head);
    if (streamer) run_prefetchers(core, line, at, false);
    return end;
  }
  const Fetch fetch = bring(core, line, at, false);
  enter_window(core, fetch.done, fetch.waited,
               fetch.where == Where::llc ? &TimeSplit::llc : &TimeSplit::media);
  if (streamer || adjacent_line) run_prefetchers(core, line, at, true);
  return fetch.done;
}

Time Machine::State::own_line(unsigned core, LineAddress line, Time at) {
  CoreState& c = cores[core];
  PrivateCaches& own = caches[c.physical];
  constexpr std::uint64_t both = CacheTags::flag_bits;
  std::uint64_t flags = own.l1.flags(line);
  const bool in_l1 = flags != CacheTags::absent;
  ++(in_l1 ? counters.l1_hits : counters.l1_misses);
  if (!in_l1) {
    flags = own.l2.flags(line);
    if (flags == CacheTags::absent) {
      // A line is asked for when its store is among the next few to become visible.
      advance(core, c.stores_ahead.oldest(), &TimeSplit::memory_queueing);
      const Fetch fetch = bring(core, line, std::max(at, c.stores_ahead.oldest()), true);
      c.stores_ahead.push(fetch.done);
      c.missed_line = line;
      c.hits_follow = false;
      own.l2.touch(line, both);
      own.l1.touch(line, both);
      if (streamer || adjacent_line) run_prefetchers(core, line, at, true);
      return fetch.done;
    }
    ++counters.l2_hits;
    insert_l1(core, line, flags & CacheTags::exclusive_bit);
  }
  Time end = in_l1 ? at : at + l2_latency;
  if ((flags & CacheTags::exclusive_bit) == 0) {
    const Fetch grant = uncore.upgrade(caches, c.physical, line, at);
    end = std::max(end, grant.done);
  }
  own.l1.touch(line, both);
  own.l2.touch(line, CacheTags::exclusive_bit);
  if (c.latest_fill > end) end = std::max(end, c.fills.end_of(line));
  if (c.latest_prefetch > end) end = std::max(end, c.prefetches.end_of(line));
  if (!in_l1 && streamer) run_prefetchers(core, line, at, false);
  return end;
}

void Machine::State::enter_store_buffer(unsigned core, LineAddress line) noexcept {
  CoreState& c = cores[core];
  advance(core, c.store_buffer.oldest(), &TimeSplit::memory_queueing);
  c.store_buffer.push(c.committed);
  if (c.hits_follow || line == c.missed_line) return;
  c.hits_follow = true;
  for (unsigned i = 0; i < hit_places; ++i) c.stores_ahead.push(c.committed);
}

void Machine::State::store_line(unsigned core, LineAddress line) {
  CoreState& c = cores[core];
  const Time at = issue_time(c, clocks[core], 0) + translate(c, line);
  commit(core, line, own_line(core, line, at));
}

void Machine::State::send_line(unsigned core, LineAddress line, Time at, bool streamed,
                               bool partial) {
  CoreState& c = cores[core];
  // The buffer that brought the line in also takes it out.
  unsigned slot = 0;
  while (slot < c.fills.size() && c.fills[slot].line != line) ++slot;
  Time start =
      slot < c.fills.size() ? std::max(at, c.fills[slot].end) : take_fill_buffer(core, at, slot);
  if (!streamed) {
    start = std::max(start, c.next_flush);
    c.next_flush = start + flush_gap;
  }
  const Time gone =
      start + (streamed ? stream_hold : flush_hold) + uncore.distance_hold(c.socket, line);
  c.fills.set(slot, {~LineAddress{0}, gone, gone});
  if (!streamed && start > clocks[core]) {
    if (c.later_flush_count == c.later_flushes.size())
      send_later_flushes(core, c.later_flushes[0].at);
    unsigned place = c.later_flush_count++;
    for (; place > 0 && c.later_flushes[place - 1].at > start; --place)
      c.later_flushes[place] = c.later_flushes[place - 1];
    c.later_flushes[place] = {line, start};
    return;
  }
  const Time extra = streamed ? stream_extra : 0;
  const ChannelWrite sent = partial ? uncore.write_partial(c.socket, line, start, extra)
                                    : uncore.write_back(c.socket, line, start, extra);
  c.accepted = std::max(c.accepted, sent.accepted);
  note_sent(core, sent.taken, &TimeSplit::flush_fence);
}

void Machine::State::send_later_flushes(unsigned core, Time until) {
  CoreState& c = cores[core];
  unsigned sent = 0;
  for (; sent < c.later_flush_count && c.later_flushes[sent].at <= until; ++sent) {
    const LaterFlush& flush = c.later_flushes[sent];
    const ChannelWrite written = uncore.write_back(c.socket, flush.line, flush.at, 0);
    c.accepted = std::max(c.accepted, written.accepted);
    note_sent(core, written.taken, &TimeSplit::flush_fence);
  }
  if (sent == 0) return;
  c.later_flush_count -= sent;
  for (unsigned i = 0; i < c.later_flush_count; ++i) c.later_flushes[i] = c.later_flushes[i + sent];
}

}  // namespace perdure::platform
