// Machine::State: the parts of a machine and the steps that the public calls are made of.
#pragma once

#include <algorithm>

#include "platform/model/core_state.h"
#include "platform/model/machine.h"
#include "platform/model/uncore.h"

namespace perdure::platform {

struct Machine::State {
  State(const Platform& platform, std::span<const unsigned> cpus, const Ablation& ablation);

  /// Moves a clock to `to` (if that is later) and books the step.
  void advance(unsigned core, Time to, Time TimeSplit::*head) noexcept {
    Time& clock = clocks[core];
    if (to <= clock) return;
    cores[core].split.*head += to - clock;
    clock = to;
  }
  void spend(unsigned core, Time duration, Time TimeSplit::*head) noexcept {
    clocks[core] += duration;
    cores[core].split.*head += duration;
  }
  /// Waits for an entry's end; its queueing is booked apart.
  void wait_for(unsigned core, const WindowEntry& entry) noexcept;
  /// Issue of one access: its cost, and the wait for what leaves the window.
  void issue(unsigned core) noexcept {
    CoreState& c = cores[core];
    c.position += position_unit;
    spend(core, access_cost, &TimeSplit::compute);
    retire(core);
  }
  void retire(unsigned core) noexcept {
    const CoreState& c = cores[core];
    if (c.window.due(clocks[core], c.position, window_positions)) retire_oldest(core);
  }
  void retire_oldest(unsigned core) noexcept;
  void enter_window(unsigned core, Time end, Time waited, Time TimeSplit::*head) noexcept {
    CoreState& c = cores[core];
    if (end > c.loads_done) c.loads_done = end;
    if (end > clocks[core] + l2_latency) enter_window_late(core, end, waited, head);
  }
  void enter_window_late(unsigned core, Time end, Time waited, Time TimeSplit::*head) noexcept;
  [[nodiscard]] Time issue_time(const CoreState& c, Time now, Time ready) const noexcept {
    if (ablation.no_dependence_window) ready = std::max(ready, c.loads_done);
    return std::max(ready, c.position < c.shadow_end ? now - c.shadow : now);
  }
  Time translate(CoreState& c, LineAddress line) noexcept {
    return line >> page_shift == c.last_page ? 0 : translate_page(c, line >> page_shift);
  }
  Time translate_page(CoreState& c, std::uint64_t page) noexcept;
  /// What `translate` would find, and whether that takes no time.
  struct Translation {
    std::uint64_t page;
    CacheTags::Place place;
    bool quick;
  };
  [[nodiscard, gnu::always_inline]] Translation find_page(const CoreState& c,
                                                          LineAddress line) const noexcept {
    const std::uint64_t page = line >> page_shift;
    if (page == c.last_page) return {page, {}, true};
    const CacheTags::Place place = c.tlb.find(page);
    return {page, place, c.tlb.has(place)};
  }
  [[gnu::always_inline]] void use_page(CoreState& c, const Translation& found) noexcept {
    if (found.page == c.last_page) return;
    c.last_page = found.page;
    c.tlb.touch(found.place, 0);
  }

  Time load_line(unsigned core, LineAddress line, Time ready);
  /// The whole path of a line that L1 does not hold; returns its fetch.
  Fetch bring(unsigned core, LineAddress line, Time at, bool writes);
  void store_line(unsigned core, LineAddress line);
  /// The store of a line: when it is visible, if nothing older is in the way.
  Time own_line(unsigned core, LineAddress line, Time at);
  void commit(unsigned core, LineAddress line, Time end) noexcept {
    CoreState& c = cores[core];
    if (end > c.committed) c.committed = end;
    if (c.committed > clocks[core]) enter_store_buffer(core, line);
  }
  void enter_store_buffer(unsigned core, LineAddress line) noexcept;
  Time take_fill_buffer(unsigned core, Time at, unsigned& slot) noexcept;
  void insert_l1(unsigned core, LineAddress line, std::uint64_t flags);
  /// Tags only; returns the dirty line that the LLC lost over it, if any.
  CacheTags::Victim put_in_l2(unsigned physical, LineAddress line, std::uint64_t flags) noexcept;
  void insert_l2(unsigned core, LineAddress line, std::uint64_t flags);
  void evict_to_memory(unsigned core, LineAddress line);
  /// Writes one line to memory; waits while too many lines of this core are being written.
  void send_line(unsigned core, LineAddress line, Time at, bool streamed, bool partial);
  /// Flushed lines whose time has come, or all of them.
  void send_later_flushes(unsigned core, Time until);
  void send_due(unsigned core) {
    if (cores[core].later_flush_count != 0) send_later_flushes(core, clocks[core]);
  }
  void note_sent(unsigned core, Time taken, Time TimeSplit::*head) noexcept;
  /// `quietly`: tags only, as `warm`.
  void run_prefetchers(unsigned core, LineAddress line, Time at, bool missed, bool quietly = false);
  /// False: there is no room for it now.
  bool prefetch_line(unsigned core, LineAddress line, Time at, bool quietly);
  void drain_combining(unsigned core, WriteCombining& buffer);
  void drain_all_combining(unsigned core);
  /// A line that is being written delays its next version, the longer the more were sent since.
  void wait_for_streamed(unsigned core, LineAddress line);

  /// An access that moves tags only: no time, no traffic.
  struct Touch {
    LineAddress line = 0;
    unsigned core = 0;
    bool writes = false;
    bool operator==(const Touch&) const = default;
  };
  void touch(const Touch& touch) noexcept;
  void finish_touches() noexcept;
  void warm(const Touch& touch) noexcept;

  static constexpr std::uint64_t position_unit = 64;

  Platform platform;
  Ablation ablation;
  std::vector<Time> clocks;
  std::vector<CoreState> cores;
  std::vector<PrivateCaches> caches;
  Uncore uncore;
  Counters counters;

  Time access_cost, l1_latency, l2_latency, stream_extra, stream_again, second_tlb_cost, walk_cost;
  Time stream_hold, flush_hold, flush_gap;
  Time prefetch_patience;
  Time flush_cost, stream_cost, fence_cost, atomic_cost, pause_cost;
  std::uint64_t window_positions, compute_positions;  ///< the latter per 2^16 ps
  unsigned page_shift, hit_places;
  bool streamer, adjacent_line;

 private:
  static constexpr unsigned touches_waiting = 16;
  std::array<Touch, touches_waiting> touches_;  ///< a ring: the oldest is the next to go
  std::uint64_t touched_ = 0;                   ///< how many came
  std::uint64_t warmed_ = 0;                    ///< how many of them have gone

  [[nodiscard]] Time cycles(double count) const { return from_ns(count / platform.cpu.clock_ghz); }
};

}  // namespace perdure::platform
