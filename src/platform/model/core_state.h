// CoreState: one simulated thread's window, buffers and time split.
//
// C1  the clock moves only in `advance`, which books the step under one head of the time split.
// C2  `window` holds loads (and fences) whose end lies ahead of the clock, ends rising.
#pragma once

#include <array>
#include <vector>

#include "platform/model/channel.h"
#include "platform/model/uncore.h"

namespace perdure::platform {

/// What an instruction stream waits for when its oldest entry is not complete.
struct WindowEntry {
  std::uint64_t position = 0;
  Time end = 0;
  Time waited = 0;  ///< queueing within it
  Time TimeSplit::*head = &TimeSplit::media;
};

/// First in, first out, over a power of two of slots; never grows.
class Window {
 public:
  explicit Window(std::size_t capacity) : slots_(std::bit_ceil(capacity + 2)) {}
  [[nodiscard]] bool empty() const noexcept { return first_ == last_; }
  [[nodiscard]] bool full() const noexcept { return last_ - first_ == slots_.size(); }
  [[nodiscard]] WindowEntry& front() noexcept { return slots_[first_ & (slots_.size() - 1)]; }
  [[nodiscard]] WindowEntry& back() noexcept { return slots_[(last_ - 1) & (slots_.size() - 1)]; }
  void push(const WindowEntry& entry) noexcept { slots_[last_++ & (slots_.size() - 1)] = entry; }
  void pop() noexcept { ++first_; }

 private:
  std::vector<WindowEntry> slots_;
  std::size_t first_ = 0, last_ = 0;
};

struct FillBuffer {
  LineAddress line = ~LineAddress{0};
  Time end = 0;
};

/// One ascending or descending run of lines within a 4 KiB page.
struct Stream {
  std::uint64_t page = ~std::uint64_t{0};
  LineAddress last = 0;
  LineAddress ahead = 0;  ///< furthest line fetched
  int direction = 0;
  unsigned run = 0;
};

/// A line that is flushed as soon as it is there.
struct LaterFlush {
  LineAddress line = 0;
  Time at = 0;
};

struct WriteCombining {
  LineAddress line = ~LineAddress{0};
  std::uint64_t bytes = 0;  ///< bit per byte
};

struct CoreState {
  CoreState(const CoreParameters& cpu, unsigned on_core, unsigned on_socket)
      : physical(on_core),
        socket(on_socket),
        window(cpu.reorder_buffer_accesses * 2 + 64),
        fills(cpu.line_fill_buffers),
        store_buffer(cpu.store_buffer_entries),
        store_misses(cpu.store_misses),
        write_backs(cpu.outstanding_write_backs),
        later_flushes(cpu.line_fill_buffers),
        tlb(cpu.tlb_entries, std::min(4U, cpu.tlb_entries), true),
        second_tlb(cpu.second_tlb_entries, std::min(12U, cpu.second_tlb_entries), true) {}

  unsigned physical, socket;
  TimeSplit split;
  TimeSplit split_at_begin;
  Window window;
  std::uint64_t position = 0;  ///< instructions, in units of `position_unit` per access
  std::vector<FillBuffer> fills;
  Time latest_fill = 0;
  TimeRing store_buffer;
  Time committed = 0;  ///< when the youngest store is visible
  Time loads_done = 0;
  TimeRing store_misses;  ///< ends of the last ones
  TimeRing write_backs;   ///< when the last lines sent left their write queue
  Time accepted = 0;      ///< when all lines sent so far are accepted
  /// Flushed lines that are still on their way in, in order of time. They are sent when the clock
  /// gets there: a line sent ahead of time would keep those of other cores waiting for it.
  std::vector<LaterFlush> later_flushes;
  unsigned later_flush_count = 0;
  /// What follows a fence closely started while the fence waited.
  Time shadow = 0;
  std::uint64_t shadow_end = 0;
  std::array<Stream, 16> streams;
  unsigned next_stream = 0;
  std::array<FillBuffer, 32> prefetches;
  unsigned next_prefetch = 0;
  Time latest_prefetch = 0;
  Time recent_wait = 0;  ///< queueing of the last line fetched; long waits hold prefetches back
  std::array<WriteCombining, 10> combining;
  unsigned open_combining = 0, next_combining = 0;
  CacheTags tlb, second_tlb;
  std::uint64_t last_page = ~std::uint64_t{0};
};

}  // namespace perdure::platform
