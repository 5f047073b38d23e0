// The inline part of Machine: what an access costs that L1 answers. It does what `load_line` and
// `store_line` do in that case, in as few steps as possible, because nearly all accesses are such.
#pragma once

#include "platform/model/machine_state.h"

namespace perdure::platform {

[[gnu::always_inline]] inline bool Machine::load_from_l1(unsigned core, std::uint64_t line,
                                                         Time ready, Time& done) noexcept {
  State& s = *state_;
  CoreState& c = s.cores[core];
  if (!s.caches[c.physical].l1.touch_if(line, 0, 0)) return false;
  ++s.counters.loads;
  ++s.counters.l1_hits;
  s.issue(core);
  const Time at = s.issue_time(c, s.clocks[core], ready) + s.translate(c, line);
  Time end = at + s.l1_latency;
  if (c.latest_fill > end) end = std::max(end, s.fill_in_flight(c, line));
  s.enter_window(core, end, 0, &TimeSplit::l1);
  done = end;
  return true;
}

[[gnu::always_inline]] inline bool Machine::store_to_l1(unsigned core,
                                                        std::uint64_t line) noexcept {
  State& s = *state_;
  CoreState& c = s.cores[core];
  PrivateCaches& own = s.caches[c.physical];
  if (!own.l1.touch_if(line, CacheTags::exclusive_bit, CacheTags::flag_bits)) return false;
  ++s.counters.stores;
  ++s.counters.l1_hits;
  s.issue(core);
  Time end = s.issue_time(c, s.clocks[core], 0) + s.translate(c, line);
  own.l2.touch(line, CacheTags::exclusive_bit);
  if (c.latest_fill > end) end = std::max(end, s.fill_in_flight(c, line));
  if (c.latest_prefetch > end) end = std::max(end, s.prefetch_in_flight(c, line));
  s.commit(core, end);
  return true;
}

inline bool Machine::shares_caches(unsigned core) const noexcept {
  return state_->caches[state_->cores[core].physical].threads > 1;
}

inline void Machine::prefetch_on_host(unsigned core, std::uint64_t line) const noexcept {
  const State& s = *state_;
  s.uncore.prefetch_on_host(line);
  s.uncore.prefetch_on_host(s.caches[s.cores[core].physical].l2.next_victim(line));
  if (s.adjacent_line) s.uncore.prefetch_on_host(line ^ 1);
}

}  // namespace perdure::platform
