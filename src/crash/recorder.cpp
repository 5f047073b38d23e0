#include "crash/recorder.h"

#include <algorithm>
#include <cstring>

#include "crash/persistency.h"

namespace perdure::crash {
namespace {

std::uint64_t load_bytes(const std::byte* from, unsigned size) noexcept {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < size; ++i) value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

/// Bytes from `at` to the end of its word, at most `left`.
unsigned piece_of(std::uint64_t at, std::size_t left) noexcept {
  return static_cast<unsigned>(std::min<std::size_t>(left, word_bytes - at % word_bytes));
}

}  // namespace

void EventSource::begin_store(unsigned thread, const void* address, std::size_t bytes,
                              const void* pc, Access access) {
  const std::uint32_t at = offset_of(address);
  const std::size_t inside = std::min(bytes, bytes_ - at);
  open_ = {Event::Kind::store,
           static_cast<std::uint8_t>(thread),
           at,
           inside,
           pc,
           access,
           access == Access::update ? load_bytes(base_ + at, piece_of(at, inside)) : 0};
}

void EventSource::begin_stream(unsigned thread, const void* address, std::size_t bytes,
                               const void* pc) {
  const std::uint32_t at = offset_of(address);
  open_ = {Event::Kind::stream,
           static_cast<std::uint8_t>(thread),
           at,
           std::min(bytes, bytes_ - at),
           pc,
           Access::atomic,
           0};
}

void EventSource::settle() {
  if (open_.bytes == 0) return;
  for (std::size_t done = 0; done < open_.bytes;) {
    const std::uint32_t at = open_.at + static_cast<std::uint32_t>(done);
    const unsigned size = piece_of(at, open_.bytes - done);
    const std::uint64_t value = load_bytes(base_ + at, size);
    // A compare-exchange that failed has stored nothing.
    if (open_.access != Access::update || value != open_.before)
      trace.push_back({open_.kind, open_.thread, static_cast<std::uint8_t>(size), at, value,
                       open_.pc, open_.access == Access::plain});
    done += size;
  }
  if (before_ != nullptr) explain(open_.at, open_.bytes);
  open_.bytes = 0;
}

void EventSource::explain_from(const std::byte* before, const std::byte* base) {
  before_ = before;
  base_ = base;
  explained_.clear();
}

LineContent& EventSource::explained(LineNumber line) {
  const auto [at, is_new] = explained_.try_emplace(line);
  if (is_new) std::memcpy(at->second.data(), before_ + std::size_t{line} * line_bytes, line_bytes);
  return at->second;
}

void EventSource::explain(std::uint32_t at, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t from = at + done;
    const std::size_t piece = std::min(bytes - done, line_bytes - from % line_bytes);
    auto* const content =
        reinterpret_cast<std::byte*>(explained(static_cast<LineNumber>(from / line_bytes)).data());
    std::memcpy(content + from % line_bytes, base_ + from, piece);
    done += piece;
  }
}

void EventSource::foreign_flush(unsigned thread, const void* address, std::size_t bytes,
                                const void* pc) {
  settle();
  if (before_ == nullptr || !holds(address) || bytes == 0) return;
  const std::uint32_t at = offset_of(address);
  const std::size_t last = at + std::min(bytes, bytes_ - at) - 1;
  ++last_group;
  for (auto line = static_cast<LineNumber>(at / line_bytes); line <= last / line_bytes; ++line) {
    const std::uint32_t begin = line * static_cast<std::uint32_t>(line_bytes);
    LineContent now;
    std::memcpy(now.data(), base_ + begin, line_bytes);
    const std::byte* const old = explained_.contains(line)
                                     ? reinterpret_cast<const std::byte*>(explained_[line].data())
                                     : before_ + begin;
    if (std::memcmp(old, now.data(), line_bytes) != 0) {
      LineContent& known = explained(line);
      for (std::uint32_t word = 0; word < now.size(); ++word) {
        if (known[word] == now[word]) continue;
        trace.push_back({Event::Kind::store, static_cast<std::uint8_t>(thread), word_bytes,
                         begin + word * static_cast<std::uint32_t>(word_bytes), now[word], pc,
                         false, last_group});
      }
      known = now;
    }
    add(Event::Kind::flush, thread, begin, static_cast<unsigned>(Persistency::Flush::clwb), pc);
  }
}

void EventSource::begin_group() {
  settle();
  group_begin_ = trace.size();
}

void EventSource::end_group(unsigned thread, const void* pc) {
  settle();
  ++last_group;
  for (std::size_t i = group_begin_; i < trace.size(); ++i) {
    trace[i].group = last_group;
    trace[i].plain = false;
  }
  trace.insert(trace.begin() + static_cast<std::ptrdiff_t>(group_begin_),
               {Event::Kind::locked, static_cast<std::uint8_t>(thread), 0, 0, 0, pc});
  add(Event::Kind::locked, thread, 0, 0, pc);
}

void EventSource::drop_group() {
  for (std::size_t i = group_begin_; before_ != nullptr && i < trace.size(); ++i)
    explain(trace[i].at, trace[i].size);
  trace.resize(group_begin_);
  open_.bytes = 0;
}

void EventSource::add(Event::Kind kind, unsigned thread, std::uint64_t at, unsigned size,
                      const void* pc) {
  trace.push_back({kind, static_cast<std::uint8_t>(thread), static_cast<std::uint8_t>(size),
                   static_cast<std::uint32_t>(at), 0, pc});
}

Recorder::Recorder(const std::byte* base, std::size_t bytes, Options options)
    : options_(std::move(options)), source_(base, bytes), untold_(bytes / line_bytes + 2, 0) {
  watch_pool_only();
  source_.last_group = options_.last_group;
  if (options_.before != nullptr) source_.explain_from(options_.before, base);
}

Recorder::~Recorder() = default;

Recorder::Run Recorder::run(const std::function<void(unsigned)>& job) {
  run_ = {};
  exposed_ = 0;
  unflushed_ = {};
  recent_sites_ = {};
  source_.trace.clear();
  next_preemption_ = 0;
  order_ = options_.schedule.order;
  std::erase_if(order_, [&](std::uint8_t thread) { return thread >= options_.threads; });
  postponed_.clear();
  pauses_ = {};
  locks_ = {};
  const unsigned first = options_.schedule.first % options_.threads;
  source_.add(Event::Kind::run, first, 0, 0, nullptr);
  platform::Observer* const before = install(this);
  hush_loads();
  fibers_.run(
      options_.threads, first,
      [&](unsigned thread) {
        job(thread);
        source_.settle();
      },
      [&] {
        const unsigned next = next_alive(fibers_.running());
        if (next != Fibers::nobody) source_.add(Event::Kind::run, next, 0, 0, nullptr);
        return next;
      });
  install(before);
  run_.trace = std::move(source_.trace);
  run_.last_group = source_.last_group;
  return std::move(run_);
}

void Recorder::called(std::uint32_t operation) {
  source_.settle();
  source_.add(Event::Kind::call, fibers_.running(), operation, 0, nullptr);
  steps_told_ = run_.steps.count;
  pauses_[fibers_.running()] = 0;
  locks_[fibers_.running()].clear();
}

void Recorder::returned(std::uint32_t operation) {
  source_.settle();
  source_.add(Event::Kind::ret, fibers_.running(), operation, 0, nullptr);
  steps_told_ = run_.steps.count;
}

bool Recorder::is_alive(unsigned thread) const {
  return !fibers_.ended(thread) && !(run_.stopped && run_.stopped->thread == thread);
}

unsigned Recorder::next_alive(unsigned after) const {
  for (const std::uint8_t candidate : order_)
    if (is_alive(candidate)) return candidate;
  for (unsigned i = 1; i <= fibers_.count(); ++i) {
    const unsigned candidate = (after + i) % fibers_.count();
    if (is_alive(candidate)) return candidate;
  }
  return Fibers::nobody;
}

void Recorder::demote(unsigned thread) {
  const auto at = std::ranges::find(order_, static_cast<std::uint8_t>(thread));
  if (at != order_.end()) std::rotate(at, at + 1, order_.end());
}

void Recorder::hand_over(unsigned to) {
  if (to == fibers_.running()) return;
  source_.add(Event::Kind::run, to, 0, 0, nullptr);
  fibers_.switch_to(to);
}

void Recorder::meet(const void* hook) {
  source_.settle();
  if (!fibers_.inside()) return;
  if (elision_.active()) {
    constexpr std::uint64_t most_elided_steps = 100'000;
    if (++elided_steps_ > most_elided_steps) give_up_transaction(Elision::aborted_for_good);
    return;
  }
  constexpr std::uint64_t most_quiet = 1U << 30;  // a loop without any pause or store
  quiet_met_ = quiet_loads() == 0 ? quiet_met_ + quiet_given_ : 0;
  hush_loads();
  const std::uint64_t most =
      run_.stopped ? options_.most_steps_beside_stopped : options_.most_steps;
  if (++run_.steps.count - steps_told_ > most || quiet_met_ > most_quiet) give_up_run(hook);
  if ((exposed_ >> fibers_.running() & 1) != 0) run_.steps.exposed.push_back(run_.steps.count);
  const auto& preemptions = options_.schedule.preemptions;
  while (next_preemption_ < preemptions.size() &&
         preemptions[next_preemption_].step < run_.steps.count)
    ++next_preemption_;
  if (next_preemption_ == preemptions.size() ||
      preemptions[next_preemption_].step != run_.steps.count)
    return;
  const unsigned to = preemptions[next_preemption_++].thread;
  if (to == Preemption::stop) {
    stop(hook);
  } else if (to == Preemption::demote) {
    demote(fibers_.running());
    hand_over(next_alive(fibers_.running()));
  } else if (to < fibers_.count() && is_alive(to)) {
    hand_over(to);
  }
}

void Recorder::give_up_run(const void* hook) {
  run_.hung = true;
  if (run_.stopped) {
    run_.stopped->waiting = static_cast<std::uint8_t>(fibers_.running());
    run_.stopped->waits = callers_.of(hook);
  }
  fibers_.abandon();
}

void Recorder::stop(const void* hook) {
  const unsigned thread = fibers_.running();
  if (run_.stopped) return;
  run_.stopped = Stopped{.thread = static_cast<std::uint8_t>(thread), .at = callers_.of(hook)};
  steps_told_ = run_.steps.count;
  const unsigned next = next_alive(thread);
  if (next == Fibers::nobody) fibers_.abandon();
  hand_over(next);
}

void Recorder::raise_floors(Event::Kind kind, const void* pc) {
  const unsigned thread = fibers_.running();
  source_.add(kind, thread, 0, 0, pc);
  if (!unflushed_[thread]) exposed_ &= static_cast<std::uint8_t>(~(1U << thread));
}

void Recorder::expose() {
  exposed_ |= static_cast<std::uint8_t>(1U << fibers_.running());
  run_.steps.exposed.push_back(run_.steps.count);
  if (!run_.mutated_from) run_.mutated_from = source_.trace.size();
}

void Recorder::note_lock(const void* address, Atomic kind) {
  constexpr std::size_t most_held = 16;
  std::vector<const void*>& held = locks_[fibers_.running()];
  const auto at = std::ranges::find(held, address);
  if (kind == Atomic::update) {
    run_.steps.locks.push_back(run_.steps.count - 1);
    if (at == held.end() && held.size() < most_held) held.push_back(address);
  } else if (at == held.end()) {
    return;
  } else {
    held.erase(at);
  }
  run_.steps.locks.push_back(run_.steps.count);
}

void Recorder::meet_site(const Site& site) {
  Site& recent =
      recent_sites_[(reinterpret_cast<std::uintptr_t>(site.pc) >> 2) % recent_sites_.size()];
  if (recent == site) return;
  recent = site;
  run_.sites.insert(site);
}

void Recorder::leave_out(const Event& event) {
  run_.deviations.push_back({source_.trace.size(), event});
}

void Recorder::write(const void* address, std::size_t bytes, const void* hook) {
  const void* const pc = callers_.of(hook);
  meet(hook);
  if (elision_.active()) elision_.remember(address, bytes);
  if (source_.holds(address))
    source_.begin_store(fibers_.running(), address, bytes, pc, EventSource::Access::plain);
}

void Recorder::atomic(const void* address, std::size_t bytes, Atomic kind, const void* hook) {
  const bool told = kind == Atomic::update || (kind == Atomic::store && source_.holds(address));
  const void* const pc = told ? callers_.of(hook) : hook;
  meet(hook);
  if (options_.threads > 1 && fibers_.inside() && kind != Atomic::load) note_lock(address, kind);
  if (elision_.active() && kind != Atomic::load)
    elision_.remember(address, bytes);
  else if (kind == Atomic::update)
    raise_floors(Event::Kind::locked, pc);
  if (kind != Atomic::load && source_.holds(address))
    source_.begin_store(fibers_.running(), address, bytes, pc, EventSource::access_of(kind));
}

void Recorder::flush(const void* line, Flush kind, const void* hook) {
  forbid_transaction();
  const void* const pc = callers_.of(hook);
  meet(hook);
  if (!source_.holds(line)) return;
  meet_site({pc, false});
  auto at = static_cast<std::uint32_t>(source_.offset_of(line) / line_bytes * line_bytes);
  const Mutation& mutation = options_.mutation;
  run_.steps.flushes.push_back(run_.steps.count);
  if (mutation.kind != Mutation::Kind::none && mutation.pc == pc) {
    expose();
    const Event right{Event::Kind::flush,
                      static_cast<std::uint8_t>(fibers_.running()),
                      static_cast<std::uint8_t>(kind),
                      at,
                      0,
                      pc};
    leave_out(right);
    if (mutation.kind != Mutation::Kind::late) unflushed_[fibers_.running()] = at;
    if (mutation.kind == Mutation::Kind::drop) return;
    if (mutation.kind == Mutation::Kind::late) return postponed_.push_back(right);
    at = at >= line_bytes ? at - 64U : at + 64U;
    run_.deviations.push_back({source_.trace.size(), std::nullopt});
  }
  for (auto& line : unflushed_)
    if (line == at) line.reset();
  source_.add(Event::Kind::flush, fibers_.running(), at, static_cast<unsigned>(kind), pc);
}

void Recorder::fence(const void* hook) {
  forbid_transaction();
  const void* const pc = callers_.of(hook);
  meet(hook);
  const Mutation& mutation = options_.mutation;
  const auto thread = static_cast<std::uint8_t>(fibers_.running());
  meet_site({pc, true});
  if (mutation.kind != Mutation::Kind::none && mutation.pc == pc) {
    expose();
    return leave_out({Event::Kind::fence, thread, 0, 0, 0, pc});
  }
  raise_floors(Event::Kind::fence, pc);
  const auto late = std::erase_if(postponed_, [&](const Event& event) {
    if (event.thread != thread) return false;
    run_.deviations.push_back({source_.trace.size(), std::nullopt});
    source_.trace.push_back(event);
    return true;
  });
  if (late > 0) expose();
}

void Recorder::stream(const void* address, std::size_t bytes, const void* hook) {
  forbid_transaction();
  const void* const pc = callers_.of(hook);
  meet(hook);
  if (source_.holds(address)) source_.begin_stream(fibers_.running(), address, bytes, pc);
}

void Recorder::pause(const void* hook) {
  forbid_transaction();
  meet(hook);
  if (!fibers_.inside()) return;
  std::uint16_t& pauses = pauses_[fibers_.running()];
  if (++pauses < options_.schedule.pauses) return;
  pauses = 0;
  demote(fibers_.running());  // or it would be let wait for ever
  hand_over(next_alive(fibers_.running()));
}

// libpmemobj keeps state per thread of the system and holds locks: nobody else runs inside it.
void Recorder::foreign_flush(const void* address, std::size_t bytes, const void* pc) {
  forbid_transaction();
  source_.foreign_flush(fibers_.running(), address, bytes, pc);
}

void Recorder::foreign_fence(const void* pc) {
  forbid_transaction();
  source_.settle();
  source_.add(Event::Kind::fence, fibers_.running(), 0, 0, pc);
}

// An abort takes back stores to any memory, so all must be seen.
std::uint32_t Recorder::transaction_begin(std::byte* frame, const std::byte* caller_frame) {
  if (!fibers_.inside()) return Elision::aborted_for_good;
  meet(nullptr);
  if (!elision_.active()) {
    if ((options_.schedule.software >> fibers_.running() & 1) != 0)
      return Elision::aborted_for_good;
    source_.begin_group();
    elided_steps_ = 0;
    quiet_given_ = 0;
    hush(0, nullptr);
    watch({});
  }
  elision_.begin(frame, caller_frame, fibers_.stack());
  return Elision::started;
}

void Recorder::transaction_commit(const void* pc) {
  if (!elision_.active() || !elision_.commit()) return;
  source_.end_group(fibers_.running(), callers_.of(pc));
  watch_pool_only();
}

void Recorder::transaction_abort() {
  if (elision_.active()) give_up_transaction(Elision::aborted_by_program);
}

void Recorder::forbid_transaction() {
  if (elision_.active()) give_up_transaction(Elision::aborted);
}

void Recorder::give_up_transaction(std::uint32_t status) {
  elision_.undo();
  source_.drop_group();
  watch_pool_only();
  elision_.give_up(status);
}

void Recorder::watch_pool_only() {
  watch({reinterpret_cast<std::uintptr_t>(source_.base()), source_.bytes()});
  if (installed() == this) hush_loads();
}

void Recorder::hush_loads() {
  if (options_.threads > 1) return;
  constexpr std::uint64_t quiet_run = 1U << 16;
  quiet_given_ = quiet_run;
  hush(quiet_run, untold_.data());
}

std::size_t Recorder::thread_slot() noexcept { return fibers_.running(); }

}  // namespace perdure::crash
