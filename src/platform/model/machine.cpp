#include "platform/model/machine.h"

#include <algorithm>
#include <string>

#include "platform/model/machine_state.h"

namespace perdure::platform {

Machine::Machine(const Platform& platform, std::span<const unsigned> cpus, const Ablation& ablation)
    : state_(std::make_unique<State>(platform, cpus, ablation)), clocks_(state_->clocks.data()) {}

Machine::~Machine() = default;

void Machine::wait_until(unsigned core, Time time) noexcept {
  state_->advance(core, time, &TimeSplit::lock_wait);
}

void Machine::compute(unsigned core, Time duration) noexcept {
  CoreState& c = state_->cores[core];
  state_->spend(core, duration, &TimeSplit::compute);
  c.position += duration * state_->compute_positions >> 16;
  state_->retire(core);
}

bool Machine::reaches_shared(unsigned core, PhysicalAddress address, unsigned bytes,
                             bool writes) const noexcept {
  const PrivateCaches& own = state_->caches[state_->cores[core].physical];
  if (own.threads > 1) return true;  // a sibling may change the caches in between
  const LineAddress last = (address + bytes - 1) >> 6;
  for (LineAddress line = address >> 6; line <= last; ++line) {
    std::uint64_t flags = own.l1.flags(line);
    if (flags == CacheTags::absent) {
      state_->uncore.prefetch_on_host(line);
      flags = own.l2.flags(line);
    }
    if (flags == CacheTags::absent) return true;
    if (writes && (flags & CacheTags::exclusive_bit) == 0) return true;
  }
  return false;
}

Time Machine::load(unsigned core, PhysicalAddress address, unsigned bytes, Time ready) {
  ++state_->counters.loads;
  state_->issue(core);
  const LineAddress last = (address + bytes - 1) >> 6;
  Time end = 0;
  for (LineAddress line = address >> 6; line <= last; ++line)
    end = std::max(end, state_->load_line(core, line, ready));
  return end;
}

void Machine::store(unsigned core, PhysicalAddress address, unsigned bytes) {
  ++state_->counters.stores;
  state_->issue(core);
  const LineAddress last = (address + bytes - 1) >> 6;
  for (LineAddress line = address >> 6; line <= last; ++line) state_->store_line(core, line);
}

void Machine::atomic(unsigned core, PhysicalAddress address, unsigned bytes) {
  ++state_->counters.atomics;
  state_->issue(core);
  full_fence(core);
  --state_->counters.fences;
  CoreState& c = state_->cores[core];
  const LineAddress last = (address + bytes - 1) >> 6;
  for (LineAddress line = address >> 6; line <= last; ++line) {
    const std::uint64_t misses = state_->counters.llc_misses;
    const Time at = now(core) + state_->translate(c, line);
    const Time end = state_->own_line(core, line, at);
    state_->advance(core, end,
                    state_->counters.llc_misses != misses ? &TimeSplit::media : &TimeSplit::llc);
  }
  c.committed = std::max(c.committed, now(core));
  state_->spend(core, state_->atomic_cost, &TimeSplit::compute);
}

void Machine::prefetch(unsigned core, PhysicalAddress address, PrefetchKind kind, Time ready) {
  state_->issue(core);
  CoreState& c = state_->cores[core];
  const LineAddress line = address >> 6;
  PrivateCaches& own = state_->caches[c.physical];
  const bool writes = kind == PrefetchKind::write;
  const std::uint64_t in_l1 = own.l1.flags(line);
  if (in_l1 != CacheTags::absent && (!writes || (in_l1 & CacheTags::exclusive_bit) != 0)) return;
  const Time at = state_->issue_time(c, now(core), ready) + state_->translate(c, line);
  const std::uint64_t in_l2 = own.l2.flags(line);
  if (in_l2 == CacheTags::absent) {
    ++state_->counters.l1_misses;
    state_->bring(core, line, at, writes);
    return;
  }
  if (in_l1 == CacheTags::absent) state_->insert_l1(core, line, in_l2 & CacheTags::exclusive_bit);
  if (!writes || (in_l2 & CacheTags::exclusive_bit) != 0) return;
  const Fetch grant = state_->uncore.upgrade(state_->caches, c.physical, line, at);
  own.l1.touch(line, CacheTags::exclusive_bit | (grant.taken.dirty ? CacheTags::dirty_bit : 0));
  own.l2.touch(line, CacheTags::exclusive_bit);
}

void Machine::flush(unsigned core, PhysicalAddress address, FlushKind kind) {
  State& s = *state_;
  CoreState& c = s.cores[core];
  ++s.counters.flushes;
  s.issue(core);
  s.spend(core, s.flush_cost, &TimeSplit::flush_fence);
  s.send_due(core);
  const LineAddress line = address >> 6;
  // It follows this core's own stores to the line.
  Time at = s.issue_time(c, now(core), 0);
  if (c.latest_fill > at) at = std::max(at, c.fills.end_of(line));
  if (c.latest_prefetch > at) at = std::max(at, c.prefetches.end_of(line));
  const bool keep = kind == FlushKind::clwb && s.platform.cpu.flush_keeps_line;
  const CacheTags::Victim found = s.uncore.flush(s.caches, line, keep);
  if (found.dirty) {
    s.send_line(core, line, at, false, false);
  } else if (!found.valid) {
    const Time answered = s.uncore.ask_home(c.socket, line, at);
    c.accepted = std::max(c.accepted, answered);
    s.note_sent(core, answered, &TimeSplit::flush_fence);
  }
  if (kind != FlushKind::clflush) return;
  s.send_later_flushes(core, ~Time{0});
  s.advance(core, c.accepted, &TimeSplit::flush_fence);
}

void Machine::State::drain_combining(unsigned core, WriteCombining& buffer) {
  if (buffer.bytes == 0) return;
  const bool partial = buffer.bytes != ~std::uint64_t{0};
  const LineAddress line = buffer.line;
  buffer = {};
  CoreState& c = cores[core];
  --c.open_combining;
  if (c.whole == &buffer) c.whole = nullptr;
  wait_for_streamed(core, line);
  if (!uncore.flush(caches, line, false).valid)
    c.accepted = std::max(c.accepted, uncore.claim(c.socket, line, clocks[core]));
  send_line(core, line, clocks[core], true, partial);
}

void Machine::State::wait_for_streamed(unsigned core, LineAddress line) {
  CoreState& c = cores[core];
  const auto count = static_cast<unsigned>(c.streamed.size());
  for (unsigned since = 1; since < count; ++since) {
    const StreamedLine& earlier = c.streamed[(c.last_streamed + count + 1 - since) % count];
    if (earlier.line != line) continue;
    advance(core, earlier.at + std::min(since * stream_again, stream_hold),
            &TimeSplit::memory_queueing);
    break;
  }
  c.last_streamed = (c.last_streamed + 1) % count;
  c.streamed[c.last_streamed] = {line, clocks[core]};
}

void Machine::State::drain_all_combining(unsigned core) {
  if (cores[core].open_combining == 0) return;
  for (WriteCombining& buffer : cores[core].combining) drain_combining(core, buffer);
}

void Machine::stream(unsigned core, PhysicalAddress address, unsigned bytes) {
  State& s = *state_;
  CoreState& c = s.cores[core];
  ++s.counters.streaming_stores;
  s.issue(core);
  s.spend(core, s.stream_cost, &TimeSplit::compute);
  s.send_due(core);
  const LineAddress line = address >> 6;
  const std::uint64_t mask =
      bytes >= 64 ? ~std::uint64_t{0} : ((std::uint64_t{1} << bytes) - 1) << (address & 63);
  // A line that is whole leaves when the next one begins: stores to it until then join it.
  if (c.whole != nullptr && c.whole->line != line) s.drain_combining(core, *c.whole);
  WriteCombining* buffer = nullptr;
  for (WriteCombining& candidate : c.combining)
    if (candidate.line == line && candidate.bytes != 0) buffer = &candidate;
  if (buffer == nullptr) {
    buffer = &c.combining[c.next_combining];
    c.next_combining = (c.next_combining + 1) % static_cast<unsigned>(c.combining.size());
    s.drain_combining(core, *buffer);
    buffer->line = line;
    ++c.open_combining;
  }
  buffer->bytes |= mask;
  if (buffer->bytes != ~std::uint64_t{0}) return;
  const bool again = c.whole != nullptr;
  c.whole = buffer;
  if (again) s.drain_combining(core, *buffer);
}

void Machine::store_fence(unsigned core) {
  State& s = *state_;
  CoreState& c = s.cores[core];
  ++s.counters.fences;
  s.drain_all_combining(core);
  s.send_later_flushes(core, ~Time{0});
  s.spend(core, s.fence_cost, &TimeSplit::flush_fence);
  const Time from = now(core);
  // Whatever the domain: under eADR programs have nothing to flush, but what they do flush or
  // stream is waited for. Write-combining buffers are outside every domain.
  s.advance(core, std::max(c.committed, c.accepted), &TimeSplit::flush_fence);
  if (now(core) == from) return;
  c.shadow = now(core) - from;
  c.shadow_end = c.position + s.window_positions;
}

void Machine::full_fence(unsigned core) {
  store_fence(core);
  load_fence(core);
  state_->cores[core].shadow_end = 0;
}

void Machine::load_fence(unsigned core) {
  CoreState& c = state_->cores[core];
  while (!c.window.empty()) {
    state_->wait_for(core, c.window.front());
    c.window.pop();
  }
  state_->advance(core, c.loads_done, &TimeSplit::l1);
}

void Machine::drain(unsigned core) {
  load_fence(core);
  state_->send_due(core);
  state_->advance(core, state_->cores[core].committed, &TimeSplit::memory_queueing);
}

void Machine::transaction_begin(unsigned core) {
  CoreState& c = state_->cores[core];
  c.split_at_begin = c.split;
  const CoreParameters& cpu = state_->platform.cpu;
  state_->spend(core, from_ns(cpu.transaction_begin_cycles / cpu.clock_ghz), &TimeSplit::compute);
}

void Machine::transaction_commit(unsigned core) {
  ++state_->counters.transaction_commits;
  const CoreParameters& cpu = state_->platform.cpu;
  state_->spend(core, from_ns(cpu.transaction_commit_cycles / cpu.clock_ghz), &TimeSplit::compute);
}

void Machine::transaction_abort(unsigned core, AbortCause cause) {
  CoreState& c = state_->cores[core];
  const CoreParameters& cpu = state_->platform.cpu;
  state_->spend(core, from_ns(cpu.transaction_abort_cycles / cpu.clock_ghz), &TimeSplit::compute);
  const Time lost = c.split.total() - c.split_at_begin.total();
  c.split = c.split_at_begin;
  c.split.aborted_transactions += lost;
  Counters& counters = state_->counters;
  switch (cause) {
    case AbortCause::conflict:
      ++counters.aborts_conflict;
      break;
    case AbortCause::capacity:
      ++counters.aborts_capacity;
      break;
    case AbortCause::explicit_abort:
      ++counters.aborts_explicit;
      break;
    case AbortCause::flush:
      ++counters.aborts_flush;
      break;
    case AbortCause::other:
      ++counters.aborts_other;
      break;
  }
}

void Machine::pause(unsigned core) noexcept { compute(core, state_->pause_cost); }

void Machine::place_page(std::uint64_t page, PageHome home) {
  state_->uncore.pages.of_page(page).home = home;
}

void Machine::count_part(std::size_t part, std::uint64_t first_page,
                         std::uint64_t end_page) noexcept {
  state_->uncore.count_part(part, first_page, end_page);
}

void Machine::touch(unsigned core, PhysicalAddress address, unsigned bytes, bool writes) noexcept {
  const LineAddress last = (address + bytes - 1) >> 6;
  for (LineAddress line = address >> 6; line <= last; ++line) state_->touch({line, core, writes});
}

void Machine::finish_touches() noexcept { state_->finish_touches(); }

Counters Machine::counters() const {
  Counters result = state_->counters;
  state_->uncore.add_to(result);
  return result;
}

TimeSplit Machine::time_split(unsigned core) const { return state_->cores[core].split; }

Result<void> Machine::check_conservation() const {
  for (unsigned i = 0; i < state_->cores.size(); ++i) {
    const Time total = state_->cores[i].split.total();
    if (total != state_->clocks[i])
      return Error{ErrorCode::failed,
                   "M3: the parts of its time are " + std::to_string(total) + " ps, its clock is " +
                       std::to_string(state_->clocks[i]) + " ps",
                   "simulated thread " + std::to_string(i), "report this as a fault of the model"};
  }
  if (!state_->uncore.conserves())
    return Error{ErrorCode::failed,
                 "M2: 64 B pieces written to a DIMM are not those that left it "
                 "or lie in its buffer",
                 "persistent memory", "report this as a fault of the model"};
  return {};
}

}  // namespace perdure::platform
