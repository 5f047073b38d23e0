#include "crash/repair.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace perdure::crash {
namespace {

Event added_flush(unsigned thread, std::uint64_t line) {
  return {Event::Kind::flush,
          static_cast<std::uint8_t>(thread),
          static_cast<std::uint8_t>(Persistency::Flush::clwb),
          static_cast<std::uint32_t>(line * line_bytes),
          0,
          nullptr};
}

Event added_fence(unsigned thread) {
  return {Event::Kind::fence, static_cast<std::uint8_t>(thread), 0, 0, 0, nullptr};
}

/// Writes the changed trace.
class Writer {
 public:
  Writer(const Recorded& run, const std::vector<Fix>& fixes) : run_(run), fixes_(fixes) {}

  [[nodiscard]] Recorded write(Events& moved) {
    Recorded made = run_;
    made.trace.clear();
    const std::size_t end = run_.trace.size();
    moved.assign(end + 1, 0);
    for (std::size_t k = 0; k < end; ++k) {
      const Event& event = run_.trace[k];
      if (is_fence(event)) flush_pending(event.thread, k, made);
      moved[k] = static_cast<std::uint32_t>(made.trace.size());
      add(event, k, made);
      if (is_store(event)) after_store(event, k, made);
      if (event.kind == Event::Kind::flush) after_flush(event, k, made);
    }
    moved[end] = static_cast<std::uint32_t>(made.trace.size());
    numbers_.push_back(number(end));
    made.numbers = std::move(numbers_);
    made.explored_from = moved[std::min<std::size_t>(run_.explored_from, end)];
    if (run_.recovers_from <= end) made.recovers_from = moved[run_.recovers_from];
    made.recovers_to = moved[std::min<std::size_t>(run_.recovers_to, end)];
    if (run_.in_use_from <= end) made.in_use_from = moved[run_.in_use_from];
    return made;
  }

 private:
  [[nodiscard]] std::uint32_t number(std::size_t event) const {
    return run_.numbers.empty() ? static_cast<std::uint32_t>(event) : run_.numbers[event];
  }
  void add(const Event& event, std::size_t of, Recorded& made) {
    made.trace.push_back(event);
    numbers_.push_back(number(of));
  }
  [[nodiscard]] bool has(Fix::Kind kind, const Event& event) const {
    return event.pc != nullptr && std::ranges::find(fixes_, Fix{kind, event.pc}) != fixes_.end();
  }
  void flush_pending(unsigned thread, std::size_t k, Recorded& made) {
    for (const std::uint64_t line : pending_[thread]) add(added_flush(thread, line), k, made);
    pending_[thread].clear();
  }
  /// A store that spans several words, and a flush of several lines, are several events of one
  /// place.
  [[nodiscard]] bool is_last(std::size_t k) const {
    if (k + 1 == run_.trace.size()) return true;
    const Event& event = run_.trace[k];
    const Event& next = run_.trace[k + 1];
    return next.pc != event.pc || next.kind != event.kind || next.thread != event.thread;
  }
  void after_store(const Event& event, std::size_t k, Recorded& made) {
    const std::uint64_t line = event.at / line_bytes;
    if (has(Fix::Kind::flush_before_fence, event)) {
      std::vector<std::uint64_t>& lines = pending_[event.thread];
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
    }
    const bool both = has(Fix::Kind::flush_and_fence, event);
    if (both) add(added_flush(event.thread, line), k + 1, made);
    if ((both || has(Fix::Kind::fence_after_store, event)) && is_last(k))
      add(added_fence(event.thread), k + 1, made);
  }
  void after_flush(const Event& event, std::size_t k, Recorded& made) {
    if (has(Fix::Kind::fence_after_flush, event) && is_last(k))
      add(added_fence(event.thread), k + 1, made);
  }

  const Recorded& run_;
  const std::vector<Fix>& fixes_;
  std::vector<std::uint32_t> numbers_;
  std::array<std::vector<std::uint64_t>, 8> pending_{};  ///< by thread: lines to flush
};

/// What the search knows of one wrong state.
struct Wrong {
  const Recorded& run;
  std::uint32_t event;
  const Events& lost;
  std::uint32_t needed_by;
};

/// The first event in (from, to) of the thread for which `is` holds.
template <class Is>
std::optional<std::uint32_t> first_of(const Trace& trace, std::uint32_t from, std::uint32_t to,
                                      unsigned thread, Is&& is) {
  for (std::uint32_t i = from + 1; i < to && i < trace.size(); ++i)
    if (trace[i].thread == thread && is(trace[i])) return i;
  return std::nullopt;
}

/// The flush in (from, to) of a line in which nothing was stored since it was flushed last.
std::optional<Event> idle_flush(const Trace& trace, std::uint32_t from, std::uint32_t to) {
  std::set<std::uint64_t> dirty;
  for (std::uint32_t i = 0; i < to; ++i) {
    const std::uint64_t line = trace[i].at / line_bytes;
    if (is_store(trace[i])) dirty.insert(line);
    if (trace[i].kind != Event::Kind::flush) continue;
    const bool idle = dirty.erase(line) == 0;
    if (idle && i > from && trace[i].thread == trace[from].thread && trace[i].pc != nullptr)
      return trace[i];
  }
  return std::nullopt;
}

bool is_in_recovery(const Recorded& run, std::uint32_t event) {
  return event >= run.recovers_from && event < run.recovers_to;
}

/// Where the operation or recovery begins that the event's thread is in, and where it ends.
std::pair<std::uint32_t, std::uint32_t> operation_around(const Recorded& run, std::uint32_t event) {
  if (is_in_recovery(run, event)) return {run.recovers_from, run.recovers_to};
  const Trace& trace = run.trace;
  const auto is_return = [](const Event& each) { return each.kind == Event::Kind::ret; };
  const auto size = static_cast<std::uint32_t>(trace.size());
  std::uint32_t begin = event;
  while (begin > run.recovers_to &&
         !(trace[begin].thread == trace[event].thread && trace[begin].kind == Event::Kind::call))
    --begin;
  return {begin, first_of(trace, event, size, trace[event].thread, is_return).value_or(size)};
}

/// What might make the lost store `from` durable in time, the most likely first.
std::vector<Advice> candidates(const Probe& probe, const Names& names, const Wrong& wrong,
                               std::uint32_t from) {
  const Trace& trace = wrong.run.trace;
  const Event& store = trace[from];
  const std::uint32_t to = wrong.needed_by;
  const std::uint64_t line = store.at / line_bytes;
  const auto [begin, end] = operation_around(wrong.run, from);
  const auto flushes_line = [&](const Event& event) {
    return event.kind == Event::Kind::flush && event.at / line_bytes == line;
  };
  Advice common{{Fix::Kind::flush_and_fence, store.pc}, store, {}, {}, {}, {}, {}, {}};
  if (to < trace.size()) {
    common.needed_by = trace[to];
  }
  // All that the operation stored to the line since it flushed it last.
  const auto stored_until = [&, first = begin](std::uint32_t last) {
    std::vector<Event> stores;
    for (std::uint32_t i = first; i < last; ++i) {
      if (trace[i].thread != store.thread || trace[i].at / line_bytes != line) continue;
      if (trace[i].kind == Event::Kind::flush && i < from) stores.clear();
      if (is_store(trace[i])) stores.push_back(trace[i]);
    }
    return stores;
  };
  common.stores = stored_until(to);
  std::vector<Advice> made;
  if (probe.what().domain == Domain::eadr || store.kind == Event::Kind::stream) {
    // What waits in a buffer drains in its order, so a fence after the last of it is enough.
    Advice fence = common;
    for (std::uint32_t i = from; i < to; ++i)
      if (is_store(trace[i]) && trace[i].thread == store.thread && !names.is_lock(trace[i]))
        fence.at = trace[i];
    fence.fix = {Fix::Kind::fence_after_store, fence.at.pc};
    return {fence};
  }
  // What a later operation flushes is its own.
  const auto flush = first_of(trace, from, std::min(to, end), store.thread, flushes_line);
  const auto fence = first_of(trace, from, std::min(to, end), store.thread, [](const Event& event) {
    return event.kind == Event::Kind::fence && event.pc != nullptr;
  });
  const auto later = [&, last = end](auto&& is) -> std::optional<Event> {
    const auto at = first_of(trace, to, last, store.thread, is);
    if (!at || trace[*at].pc == nullptr) return std::nullopt;
    return trace[*at];
  };
  if (flush && trace[*flush].pc != nullptr) {
    common.late_fence = later([](const Event& event) { return event.kind == Event::Kind::fence; });
    Advice add = common;
    add.at = trace[*flush];
    add.fix = {Fix::Kind::fence_after_flush, add.at.pc};
    made.push_back(std::move(add));
  } else if (fence) {
    common.late_flush = later(flushes_line);
    Advice add = common;
    add.fix.kind = Fix::Kind::flush_before_fence;
    add.fence = trace[*fence];
    add.stores = stored_until(*fence);
    add.idle_flush = idle_flush(trace, from, *fence);
    made.push_back(std::move(add));
  } else {
    common.late_flush = later(flushes_line);
  }
  made.push_back(std::move(common));
  return made;
}

/// The first fix, oldest lost store first, with which this state passes.
std::optional<Advice> advise(Probe& probe, const Names& names, const Recorded& run,
                             std::uint32_t event, const Events& lost,
                             const std::vector<Fix>& tried) {
  const Wrong wrong{run, event, lost, dependent(probe, run, event, lost)};
  std::set<std::uint64_t> lines;
  for (const std::uint32_t from : lost) {
    const Event& store = run.trace[from];
    if (store.pc == nullptr || !lines.insert(store.at / line_bytes).second) continue;
    if (names.is_lock(store) || from >= wrong.needed_by) continue;
    // Nothing can be flushed inside a transaction.
    const Event* const by =
        wrong.needed_by < run.trace.size() ? &run.trace[wrong.needed_by] : nullptr;
    if (store.group != 0 && by != nullptr && by->group == store.group) continue;
    for (Advice& advice : candidates(probe, names, wrong, from)) {
      if (probe.time_up()) return std::nullopt;
      if (std::ranges::find(tried, advice.fix) != tried.end()) continue;
      Events moved;
      const Recorded changed = repaired(run, {advice.fix}, moved);
      Events still;
      for (const std::uint32_t each : lost) still.push_back(moved[each]);
      if (!probe.judge(changed, moved[event], still)) return std::move(advice);
    }
  }
  return std::nullopt;
}

std::vector<Fix> fixes_of(const std::vector<Advice>& all) {
  std::vector<Fix> fixes;
  for (const Advice& each : all) fixes.push_back(each.fix);
  return fixes;
}

/// Leaves out what the others make needless.
void drop_needless(Probe& probe, const Recorded& run, std::vector<Advice>& all) {
  for (std::size_t i = 0; i < all.size() && all.size() > 1;) {
    std::vector<Advice> fewer = all;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    Events moved;
    const bool passes = !probe.judge_all(repaired(run, fixes_of(fewer), moved));
    if (probe.time_up()) return;
    if (passes)
      all = std::move(fewer);
    else
      ++i;
  }
}

}  // namespace

Recorded repaired(const Recorded& run, const std::vector<Fix>& fixes, Events& moved) {
  return Writer(run, fixes).write(moved);
}

Recorded postponed(const Recorded& run, std::uint32_t first, std::uint32_t last) {
  Recorded made = run;
  made.trace.clear();
  made.numbers.clear();
  const auto add = [&](const Event& event, std::uint32_t number) {
    made.trace.push_back(event);
    made.numbers.push_back(number);
  };
  const Event& store = run.trace[first];
  std::set<std::uint64_t> lines;
  const auto size = static_cast<std::uint32_t>(run.trace.size());
  for (std::uint32_t i = 0; i < size; ++i) {
    const Event& event = run.trace[i];
    if (i != first) add(event, i);
    if (i > first && i <= last && is_store(event) && event.thread == store.thread)
      lines.insert(event.at / line_bytes);
    if (i != last) continue;
    for (const std::uint64_t line : lines) add(added_flush(store.thread, line), i + 1);
    add(added_fence(store.thread), i + 1);
    add(store, i + 1);
    add(added_flush(store.thread, store.at / line_bytes), i + 1);
    add(added_fence(store.thread), i + 1);
  }
  made.numbers.push_back(size);
  // Later events moved by what was added.
  const auto moved = [&](std::uint32_t event) {
    return event > last    ? event + static_cast<std::uint32_t>(made.trace.size() - size)
           : event > first ? event - 1
                           : event;
  };
  made.explored_from = moved(run.explored_from);
  if (run.recovers_from <= size) made.recovers_from = moved(run.recovers_from);
  made.recovers_to = moved(run.recovers_to);
  if (run.in_use_from <= size) made.in_use_from = moved(run.in_use_from);
  return made;
}

std::uint32_t dependent(Probe& probe, const Recorded& run, std::uint32_t event,
                        const Events& lost) {
  for (std::uint32_t cut = lost.front() + 2; cut < event && !probe.time_up(); ++cut) {
    const Event& last = run.trace[cut - 1];
    if (!is_store(last) && last.kind != Event::Kind::ret) continue;
    if (Probe::is_cut(run, cut) && probe.judge(run, cut, lost)) return cut - 1;
  }
  // It is the last change before the cut.
  for (std::uint32_t i = event; i-- > lost.front();)
    if (is_store(run.trace[i]) || run.trace[i].kind == Event::Kind::ret) return i;
  return event;
}

std::vector<Advice> find_fixes(Probe& probe, const Names& names, const Recorded& run,
                               std::uint32_t event, const Events& lost) {
  constexpr std::size_t most = 16;
  std::vector<Advice> all;
  Recorded now = run;
  std::uint32_t cut = event;
  Events missing = lost;
  while (all.size() < most && !missing.empty()) {
    auto advice = advise(probe, names, now, cut, missing, fixes_of(all));
    if (!advice) return {};
    all.push_back(std::move(*advice));
    Events moved;
    now = repaired(run, fixes_of(all), moved);
    const auto wrong = probe.judge_all(now);
    if (probe.time_up()) return {};
    if (!wrong) {
      drop_needless(probe, run, all);
      return all;
    }
    // Another store whose loss shows now, in another state.
    if (!wrong->recovery_lines.empty()) return {};
    cut = wrong->event;
    missing = probe.fewest(now, cut, lost_in(wrong->lines));
  }
  return {};
}

}  // namespace perdure::crash
