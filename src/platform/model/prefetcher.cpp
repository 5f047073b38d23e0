// The L2 prefetchers: streams within a 4 KiB page, and the other line of a 128 B pair.
#include <algorithm>
#include <bit>

#include "platform/model/machine_state.h"

namespace perdure::platform {
namespace {

/// The next-page prefetcher: after so long a run the first lines of the next page are fetched too.
constexpr unsigned next_page_run = 16;
constexpr LineAddress next_page_lines = 4;

}  // namespace

bool Machine::State::prefetch_line(unsigned core, LineAddress line, Time at, bool quietly) {
  CoreState& c = cores[core];
  PrivateCaches& own = caches[c.physical];
  if (own.l2.holds(line)) return true;
  if (quietly) {
    put_in_l2(c.physical, line, uncore.take(caches, c.physical, line, false).flags());
    return true;
  }
  const unsigned slot = c.next_prefetch;
  if (c.prefetches[slot].end > at) return false;
  // Demand misses come first: a prefetch gets only what they leave of the L2's queue.
  const unsigned misses = c.fills.under_way(at) + c.prefetches.under_way(at);
  if (misses >= (c.recent_wait > prefetch_patience ? platform.cpu.line_fill_buffers / 2
                                                   : platform.cpu.l2_misses))
    return false;
  c.next_prefetch = (c.next_prefetch + 1) % static_cast<unsigned>(c.prefetches.size());
  const Fetch fetch = uncore.fetch(caches, c.physical, line, at, false, false);
  c.recent_wait = fetch.waited;
  c.prefetches.set(slot, {line, fetch.done, fetch.done});
  c.latest_prefetch = std::max(c.latest_prefetch, fetch.done);
  insert_l2(core, line, fetch.taken.flags());
  if (fetch.taken.pushed_out.dirty) evict_to_memory(core, fetch.taken.pushed_out.line);
  return true;
}

void Machine::State::run_prefetchers(unsigned core, LineAddress line, Time at, bool missed,
                                     bool quietly) {
  CoreState& c = cores[core];
  if (adjacent_line && missed) prefetch_line(core, line ^ 1, at, quietly);
  if (!streamer) return;
  const std::uint64_t page = line >> 6;
  constexpr unsigned none = CoreState::stream_count;
  unsigned at_stream = none;
  for (unsigned i = 0; i < CoreState::stream_count; ++i)
    at_stream = c.stream_pages[i] == page ? i : at_stream;
  if (at_stream == none)
    for (std::uint32_t left = c.long_streams; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      Stream& candidate = c.streams[i];
      if (candidate.direction != 0 &&
          c.stream_pages[i] + static_cast<std::uint64_t>(candidate.direction) == page &&
          (candidate.direction > 0 ? line - candidate.last : candidate.last - line) <= 4) {
        c.stream_pages[i] = page;  // the run continues in the next page
        candidate.last = candidate.direction > 0 ? line - 1 : line + 1;
        at_stream = i;
      }
    }
  if (at_stream == none) {
    const unsigned fresh = c.next_stream;
    c.stream_pages[fresh] = page;
    c.streams[fresh] = {line, line, 0, 0};
    c.long_streams &= ~(1U << fresh);
    c.next_stream = (fresh + 1) % CoreState::stream_count;
    return;
  }
  Stream* const stream = &c.streams[at_stream];
  if (line == stream->last) return;
  const int direction = line > stream->last ? 1 : -1;
  const bool close = (line > stream->last ? line - stream->last : stream->last - line) <= 2;
  if (!close || (stream->direction != 0 && direction != stream->direction)) {
    *stream = {line, line, close ? direction : 0, 0};
    c.long_streams &= ~(1U << at_stream);
    return;
  }
  stream->direction = direction;
  stream->last = line;
  if (++stream->run >= next_page_run) c.long_streams |= 1U << at_stream;
  // The longer the run, the further ahead; one line at first.
  const unsigned reach = std::min(std::max(1U, stream->run / 2), platform.cpu.streamer_lines);
  LineAddress next = stream->ahead;
  if (direction > 0 ? next < line : next > line) next = line;
  for (unsigned issued = 0; issued < 2; ++issued) {
    const LineAddress candidate = direction > 0 ? next + 1 : next - 1;
    const LineAddress distance = direction > 0 ? candidate - line : line - candidate;
    if (distance > reach) break;
    if (candidate >> 6 != page &&
        (stream->run < next_page_run ||
         (direction > 0 ? candidate & 63 : 63 - (candidate & 63)) >= next_page_lines))
      break;
    // A stream that finds the queue full continues later where it stopped: it leaves no holes.
    if (!prefetch_line(core, candidate, at, quietly)) break;
    next = candidate;
  }
  stream->ahead = next;
}

}  // namespace perdure::platform
