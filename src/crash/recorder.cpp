#include "crash/recorder.h"

#include <algorithm>

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
  open_.bytes = 0;
}

void EventSource::add(Event::Kind kind, unsigned thread, std::uint64_t at, unsigned size,
                      const void* pc) {
  trace.push_back({kind, static_cast<std::uint8_t>(thread), static_cast<std::uint8_t>(size),
                   static_cast<std::uint32_t>(at), 0, pc});
}

Recorder::Recorder(const std::byte* base, std::size_t bytes, Options options)
    : options_(std::move(options)), source_(base, bytes) {
  window_base = reinterpret_cast<std::uintptr_t>(base);
  window_bytes = bytes;
}

Recorder::~Recorder() = default;

Recorder::Run Recorder::run(const std::function<void(unsigned)>& job) {
  run_ = {};
  source_.trace.clear();
  next_preemption_ = 0;
  order_ = options_.schedule.order;
  std::erase_if(order_, [&](std::uint8_t thread) { return thread >= options_.threads; });
  postponed_.clear();
  const unsigned first = options_.schedule.first % options_.threads;
  source_.add(Event::Kind::run, first, 0, 0, nullptr);
  platform::Observer* const before = installed;
  installed = this;
  fibers_.run(
      options_.threads, first,
      [&](unsigned thread) {
        job(thread);
        source_.settle();
      },
      [&] {
        const unsigned next = next_alive(fibers_.running());
        source_.add(Event::Kind::run, next, 0, 0, nullptr);
        return next;
      });
  installed = before;
  run_.trace = std::move(source_.trace);
  return std::move(run_);
}

void Recorder::called(std::uint32_t operation) {
  source_.settle();
  source_.add(Event::Kind::call, fibers_.running(), operation, 0, nullptr);
}

void Recorder::returned(std::uint32_t operation) {
  source_.settle();
  source_.add(Event::Kind::ret, fibers_.running(), operation, 0, nullptr);
}

unsigned Recorder::next_alive(unsigned after) const {
  for (const std::uint8_t candidate : order_)
    if (!fibers_.ended(candidate)) return candidate;
  for (unsigned i = 1; i <= fibers_.count(); ++i) {
    const unsigned candidate = (after + i) % fibers_.count();
    if (!fibers_.ended(candidate)) return candidate;
  }
  return after;
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

void Recorder::meet() {
  source_.settle();
  if (!fibers_.inside()) return;
  if (++run_.steps.count > options_.most_steps) {
    run_.hung = true;
    fibers_.abandon();
  }
  const auto& preemptions = options_.schedule.preemptions;
  while (next_preemption_ < preemptions.size() &&
         preemptions[next_preemption_].step < run_.steps.count)
    ++next_preemption_;
  if (next_preemption_ == preemptions.size() ||
      preemptions[next_preemption_].step != run_.steps.count)
    return;
  const unsigned to = preemptions[next_preemption_++].thread;
  if (to == Preemption::demote) {
    demote(fibers_.running());
    hand_over(next_alive(fibers_.running()));
  } else if (to < fibers_.count() && !fibers_.ended(to)) {
    hand_over(to);
  }
}

void Recorder::read(const void*, std::size_t, const void*) { source_.settle(); }

void Recorder::write(const void* address, std::size_t bytes, const void* hook) {
  const void* const pc = callers_.of(hook);
  meet();
  source_.begin_store(fibers_.running(), address, bytes, pc, EventSource::Access::plain);
}

void Recorder::atomic(const void* address, std::size_t bytes, Atomic kind, const void* hook) {
  const void* const pc = kind == Atomic::load ? hook : callers_.of(hook);
  meet();
  if (kind == Atomic::update) source_.add(Event::Kind::locked, fibers_.running(), 0, 0, pc);
  if (kind != Atomic::load && source_.holds(address))
    source_.begin_store(fibers_.running(), address, bytes, pc, EventSource::access_of(kind));
}

void Recorder::flush(const void* line, Flush kind, const void* hook) {
  const void* const pc = callers_.of(hook);
  meet();
  if (!source_.holds(line)) return;
  run_.sites.insert({pc, false});
  run_.steps.flushes.push_back(run_.steps.count);
  auto at = static_cast<std::uint32_t>(source_.offset_of(line) / line_bytes * line_bytes);
  const Mutation& mutation = options_.mutation;
  if (mutation.kind != Mutation::Kind::none && mutation.pc == pc) {
    if (mutation.kind == Mutation::Kind::drop) return;
    if (mutation.kind == Mutation::Kind::retarget) at = at >= line_bytes ? at - 64U : at + 64U;
    if (mutation.kind == Mutation::Kind::late) {
      postponed_.push_back({Event::Kind::flush, static_cast<std::uint8_t>(fibers_.running()),
                            static_cast<std::uint8_t>(kind), at, 0, pc});
      return;
    }
  }
  source_.add(Event::Kind::flush, fibers_.running(), at, static_cast<unsigned>(kind), pc);
}

void Recorder::fence(const void* hook) {
  const void* const pc = callers_.of(hook);
  meet();
  const Mutation& mutation = options_.mutation;
  const auto thread = static_cast<std::uint8_t>(fibers_.running());
  run_.sites.insert({pc, true});
  if (mutation.kind != Mutation::Kind::none && mutation.pc == pc) return;
  source_.add(Event::Kind::fence, thread, 0, 0, pc);
  std::erase_if(postponed_, [&](const Event& event) {
    if (event.thread != thread) return false;
    source_.trace.push_back(event);
    return true;
  });
}

void Recorder::stream(const void* address, std::size_t bytes, const void* hook) {
  const void* const pc = callers_.of(hook);
  meet();
  if (source_.holds(address)) source_.begin_stream(fibers_.running(), address, bytes, pc);
}

void Recorder::pause(const void*) {
  meet();
  if (!fibers_.inside()) return;
  demote(fibers_.running());  // or it would be let wait for ever
  hand_over(next_alive(fibers_.running()));
}

std::size_t Recorder::thread_slot() noexcept { return fibers_.running(); }

}  // namespace perdure::crash
