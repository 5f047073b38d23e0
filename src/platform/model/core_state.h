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

/// First in, first out, over a power of two of slots; never grows. What every access reads lies
/// apart from the slots.
class Window {
 public:
  explicit Window(std::size_t capacity) : slots_(std::bit_ceil(capacity + 2)) {}
  /// The oldest entry is complete, or `reach` positions back: it must leave.
  [[nodiscard]] bool due(Time now, std::uint64_t position, std::uint64_t reach) const noexcept {
    return oldest_end_ <= now || oldest_position_ + reach <= position;
  }
  [[nodiscard]] bool empty() const noexcept { return first_ == last_; }
  [[nodiscard]] bool full() const noexcept { return last_ - first_ == slots_.size(); }
  [[nodiscard]] const WindowEntry& front() const noexcept {
    return slots_[first_ & (slots_.size() - 1)];
  }
  [[nodiscard]] const WindowEntry& back() const noexcept {
    return slots_[(last_ - 1) & (slots_.size() - 1)];
  }
  void push(const WindowEntry& entry) noexcept {
    slots_[last_++ & (slots_.size() - 1)] = entry;
    note_oldest();
  }
  void pop() noexcept {
    if (++first_ == last_) first_ = last_ = 0;  // the same few slots again
    note_oldest();
  }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0} / 2;
  void note_oldest() noexcept {
    oldest_end_ = empty() ? never : front().end;
    oldest_position_ = empty() ? never : front().position;
  }

  Time oldest_end_ = never;
  std::uint64_t oldest_position_ = never;
  std::vector<WindowEntry> slots_;
  std::size_t first_ = 0, last_ = 0;
};

struct FillBuffer {
  LineAddress line = ~LineAddress{0};
  Time end = 0;   ///< the line is there
  Time free = 0;  ///< the buffer takes another
};

/// Lines that are being fetched. A count per low bits shows at once that a line is not.
class FillBuffers {
 public:
  explicit FillBuffers(std::size_t count) : buffers_(count) {
    lines_at_[slot_of(FillBuffer{}.line)] = static_cast<std::uint8_t>(count);
  }
  [[nodiscard]] bool may_hold(LineAddress line) const noexcept {
    return lines_at_[slot_of(line)] != 0;
  }
  /// When the line is there; 0: it is not under way.
  [[nodiscard]] Time end_of(LineAddress line) const noexcept {
    if (may_hold(line))
      for (const FillBuffer& buffer : buffers_)
        if (buffer.line == line) return buffer.end;
    return 0;
  }
  [[nodiscard]] std::size_t size() const noexcept { return buffers_.size(); }
  [[nodiscard]] const FillBuffer& operator[](std::size_t at) const noexcept { return buffers_[at]; }
  void set(std::size_t at, FillBuffer to) noexcept {
    --lines_at_[slot_of(buffers_[at].line)];
    ++lines_at_[slot_of(to.line)];
    buffers_[at] = to;
  }
  /// Those that bring a line in, and end after `at`.
  [[nodiscard]] unsigned under_way(Time at) const noexcept {
    unsigned count = 0;
    for (const FillBuffer& buffer : buffers_)
      count += static_cast<unsigned>(buffer.end > at) &
               static_cast<unsigned>(buffer.line != FillBuffer{}.line);
    return count;
  }

 private:
  static constexpr std::size_t slot_of(LineAddress line) noexcept { return line & 63; }
  std::array<std::uint8_t, 64> lines_at_{};
  std::vector<FillBuffer> buffers_;
};

/// One ascending or descending run of lines within a 4 KiB page. The page's number is kept apart,
/// because all pages are searched at every miss.
struct Stream {
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

/// A line that left its write-combining buffer.
struct StreamedLine {
  LineAddress line = ~LineAddress{0};
  Time at = 0;
};

struct WriteCombining {
  LineAddress line = ~LineAddress{0};
  std::uint64_t bytes = 0;  ///< bit per byte
};

struct alignas(64) CoreState {
  CoreState(const CoreParameters& cpu, unsigned on_core, unsigned on_socket)
      : physical(on_core),
        socket(on_socket),
        window(cpu.reorder_buffer_accesses * 2 + 64),
        fills(cpu.line_fill_buffers),
        prefetches(32),
        store_buffer(cpu.store_buffer_entries),
        stores_ahead(cpu.stores_ahead),
        write_backs(cpu.outstanding_write_backs),
        later_flushes(cpu.line_fill_buffers),
        tlb(cpu.tlb_entries, std::min(4U, cpu.tlb_entries), true),
        second_tlb(cpu.second_tlb_entries, std::min(12U, cpu.second_tlb_entries), true) {
    stream_pages.fill(~std::uint64_t{0});
  }

  // What an access that L1 answers looks at comes first: few lines of the host.
  unsigned physical, socket;
  std::uint64_t position = 0;  ///< instructions, in units of `position_unit` per access
  std::uint64_t last_page = ~std::uint64_t{0};
  Time loads_done = 0;
  Time latest_fill = 0;
  Time latest_prefetch = 0;
  Time committed = 0;  ///< when the youngest store is visible
  /// What follows a fence closely started while the fence waited.
  Time shadow = 0;
  std::uint64_t shadow_end = 0;
  TimeSplit split;
  Window window;
  FillBuffers fills;
  FillBuffers prefetches;
  TimeSplit split_at_begin;
  TimeRing store_buffer;
  TimeRing stores_ahead;  ///< when the last stores that missed, and runs of those that hit, end
  LineAddress missed_line = ~LineAddress{0};  ///< of the last store that missed
  bool hits_follow = false;                   ///< that one's run of hits is in `stores_ahead`
  TimeRing write_backs;                       ///< when the last lines sent left their write queue
  Time next_flush = 0;                        ///< when the next flushed line can leave
  Time accepted = 0;                          ///< when all lines sent so far are accepted
  /// Flushed lines that are still being fetched, in order of time. They are sent when the clock
  /// gets there, because a line sent ahead of time would delay those of other cores.
  std::vector<LaterFlush> later_flushes;
  unsigned later_flush_count = 0;
  static constexpr unsigned stream_count = 16;
  std::array<std::uint64_t, stream_count> stream_pages;
  std::array<Stream, stream_count> streams;
  std::uint32_t long_streams = 0;  ///< bit per stream that may continue in the next page
  unsigned next_stream = 0;
  unsigned next_prefetch = 0;
  Time recent_wait = 0;  ///< queueing of the last line fetched; long waits hold prefetches back
  std::array<WriteCombining, 10> combining;
  unsigned open_combining = 0, next_combining = 0;
  WriteCombining* whole = nullptr;        ///< of these, one that has all its bytes
  std::array<StreamedLine, 16> streamed;  ///< the last ones, in a ring
  unsigned last_streamed = 0;
  CacheTags tlb, second_tlb;
};

}  // namespace perdure::platform
