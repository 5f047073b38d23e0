// The inline part of Machine: what an access costs that L1 answers. It does what `load_line` and
// `store_line` do in that case, in as few steps as possible, because nearly all accesses are such.
#pragma once

#include "platform/model/machine_state.h"

namespace perdure::platform {

// Each function checks everything before it changes anything, and calls only inline functions: all
// but the simplest case is left to `load` and `store`.
[[gnu::always_inline]] inline bool Machine::load_from_l1(unsigned core, std::uint64_t line,
                                                         Time ready, Time& done) noexcept {
  State& s = *state_;
  CoreState& c = s.cores[core];
  const State::Translation page = s.find_page(c, line);
  if (!page.quick) return false;
  CacheTags& l1 = s.caches[c.physical].l1;
  const CacheTags::Place place = l1.find(line);
  if (!l1.has(place)) return false;
  const Time now = s.clocks[core] + s.access_cost;
  const std::uint64_t position = c.position + State::position_unit;
  if (c.window.due(now, position, s.window_positions) || s.ablation.no_dependence_window)
    return false;
  const Time end = std::max(ready, position < c.shadow_end ? now - c.shadow : now) + s.l1_latency;
  if (c.latest_fill > end && c.fills.may_hold(line)) return false;
  if (end > now + s.l2_latency) return false;
  l1.touch(place, 0);
  ++s.counters.loads;
  ++s.counters.l1_hits;
  s.use_page(c, page);
  c.position = position;
  c.split.compute += s.access_cost;
  s.clocks[core] = now;
  if (end > c.loads_done) c.loads_done = end;
  done = end;
  return true;
}

[[gnu::always_inline]] inline bool Machine::store_to_l1(unsigned core,
                                                        std::uint64_t line) noexcept {
  State& s = *state_;
  CoreState& c = s.cores[core];
  PrivateCaches& own = s.caches[c.physical];
  const State::Translation page = s.find_page(c, line);
  if (!page.quick) return false;
  const CacheTags::Place in_l1 = own.l1.find(line);
  if (!own.l1.has(in_l1, CacheTags::exclusive_bit)) return false;
  const CacheTags::Place in_l2 = own.l2.find(line);  // L1 is within L2
  const Time now = s.clocks[core] + s.access_cost;
  const std::uint64_t position = c.position + State::position_unit;
  if (c.window.due(now, position, s.window_positions) || s.ablation.no_dependence_window)
    return false;
  const Time end = position < c.shadow_end ? now - c.shadow : now;
  if ((c.latest_fill > end && c.fills.may_hold(line)) ||
      (c.latest_prefetch > end && c.prefetches.may_hold(line)) || c.committed > now)
    return false;
  ++s.counters.stores;
  ++s.counters.l1_hits;
  s.use_page(c, page);
  c.position = position;
  c.split.compute += s.access_cost;
  s.clocks[core] = now;
  own.l1.touch(in_l1, CacheTags::flag_bits);
  if (own.l2.has(in_l2)) own.l2.touch(in_l2, CacheTags::exclusive_bit);
  if (end > c.committed) c.committed = end;
  return true;
}

inline bool Machine::shares_caches(unsigned core) const noexcept {
  return state_->caches[state_->cores[core].physical].threads > 1;
}

inline unsigned Machine::socket_of(unsigned core) const noexcept {
  return state_->cores[core].socket;
}

inline void Machine::prefetch_on_host(unsigned core, std::uint64_t line) const noexcept {
  const State& s = *state_;
  const CacheTags& l2 = s.caches[s.cores[core].physical].l2;
  s.uncore.prefetch_on_host(l2.next_victim(line));
  if (!s.adjacent_line) return;
  s.uncore.prefetch_on_host(line ^ 1);
  l2.prefetch_on_host(line ^ 1);
}

}  // namespace perdure::platform
