#include "crash/watch.h"

#include <sys/time.h>

#include <csignal>

#include "core/assert.h"

namespace perdure::crash {
namespace {

Watch* active = nullptr;
constexpr int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// One timer for all runs, because to arm one for each would cost as much as a small recovery.
void set_timer(double seconds) {
  const timeval every{0, static_cast<suseconds_t>(seconds * 1e6)};
  const itimerval timer{every, every};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

const char* name_of(Ending ending) noexcept {
  static constexpr const char* names[] = {"returned", "hangs", "faults", "aborts"};
  return names[static_cast<std::size_t>(ending)];
}

Watch::Watch(Image& image, bool copies)
    : image_(image),
      source_(image.base(), image.bytes()),
      copies_(copies),
      unmet_(image.lines() + 2, 0),
      overwritten_(image.lines() + 2, 0) {
  look_at(image.base(), image.bytes());
  if (copies) unmapped(nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_NODEFER;  // the handler does not return
  for (const int signal : caught) sigaction(signal, &action, nullptr);
  action.sa_handler = on_tick;
  action.sa_flags = SA_NODEFER | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  set_timer(seconds_per_tick);
}

Watch::~Watch() {
  set_timer(0);
  std::signal(SIGALRM, SIG_DFL);
  for (const int signal : caught) std::signal(signal, SIG_DFL);
}

void Watch::on_signal(int signal) {
  if (active == nullptr) {  // our own mistake: die of it
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  active->stop(signal == SIGABRT ? Ending::assertion : Ending::fault);
}

void Watch::on_tick(int) {
  if (active == nullptr) return;
  active->ticks_ = active->ticks_ + 1;
  if (active->ticks_ > active->most_ticks_) active->stop(Ending::out_of_steps);
}

void Watch::look_at(const void* base, std::size_t bytes) {
  watch({reinterpret_cast<std::uintptr_t>(base), bytes, recording_});
}

void Watch::record(bool on) {
  recording_ = on;
  watch({window().base, window().bytes, on});
  early_.clear();
}

void Watch::begin() {
  PERDURE_ASSERT(active == nullptr);
  ticks_ = 0;
  all_steps_ += steps_;
  steps_ = 0;
  pauses_ = 0;
  before_ = install(this);
  active = this;
  quiet_given_ = 0;
  hush();
}

void Watch::hush() noexcept {
  constexpr std::uint64_t quiet_run = 1U << 16;
  steps_ += quiet_given_ - quiet_loads();
  quiet_given_ = quiet_run;
  platform::Observer::hush(quiet_run, unmet_.data());
}

void Watch::end() {
  active = nullptr;
  install(before_);
  if (recording_) source_.settle();
}

void Watch::stop(Ending why) { siglongjmp(return_, static_cast<int>(why)); }

void Watch::ask_for(const std::vector<Asked>& lines, std::function<void(LineNumber, Bytes)> meet) {
  ask_no_more();
  asked_ = lines;
  for (const Asked& asked : asked_) unmet_[asked.line] = asked.bytes;
  meet_ = std::move(meet);
  asking_ = !asked_.empty();
}

void Watch::ask_no_more() {
  for (const Asked& asked : asked_) unmet_[asked.line] = overwritten_[asked.line] = 0;
  asked_.clear();
  asking_ = false;
}

Trace Watch::take_trace() {
  source_.settle();
  return std::move(source_.trace);
}

void Watch::meet_lines(std::uint32_t at, std::size_t bytes, bool stores) {
  const std::size_t end = std::min<std::size_t>(at + bytes, image_.bytes());
  for (std::size_t from = at; from < end;) {
    const std::size_t line = from / line_bytes;
    const std::size_t to = std::min(end, (line + 1) * line_bytes);
    const Bytes touched = unmet_[line] & bytes_at(from % line_bytes, to - from);
    unmet_[line] &= ~touched;
    if (stores)
      overwritten_[line] |= touched;
    else if (touched != 0)
      meet_(static_cast<LineNumber>(line), touched);
    from = to;
  }
}

void Watch::read(const void* address, std::size_t bytes, const void*) {
  count();
  hush();
  if (asking_ && bytes != 0) meet_lines(source_.offset_of(address), bytes, false);
}

void Watch::write(const void* address, std::size_t bytes, const void* pc) {
  count();
  if (bytes == 0) return;
  const std::uint32_t at = source_.offset_of(address);
  if (recording_) source_.settle();
  if (asking_) meet_lines(at, bytes, true);
  change(at, bytes);
  if (recording_)
    source_.begin_store(0, address, bytes, callers_.of(pc), EventSource::Access::plain);
}

void Watch::atomic(const void* address, std::size_t bytes, Atomic kind, const void* pc) {
  count();
  if (recording_) {
    source_.settle();
    if (kind == Atomic::update) source_.add(Event::Kind::locked, 0, 0, 0, callers_.of(pc));
  }
  if (!source_.holds(address)) return;
  const std::uint32_t at = source_.offset_of(address);
  if (asking_) meet_lines(at, bytes, kind == Atomic::store);
  if (kind == Atomic::load) return hush();
  change(at, bytes);
  if (recording_)
    source_.begin_store(0, address, bytes, callers_.of(pc), EventSource::access_of(kind));
}

void Watch::flush(const void* line, Flush kind, const void* hook) {
  count();
  if (!recording_ || !source_.holds(line)) return;
  const void* const pc = callers_.of(hook);
  source_.settle();
  auto at = static_cast<std::uint32_t>(source_.offset_of(line) / line_bytes * line_bytes);
  if (mutation_.kind != Mutation::Kind::none && mutation_.pc == pc) {
    if (mutation_.kind != Mutation::Kind::retarget) return;
    at = at >= line_bytes ? at - 64U : at + 64U;
  }
  source_.add(Event::Kind::flush, 0, at, static_cast<unsigned>(kind), pc);
}

void Watch::fence(const void* hook) {
  count();
  if (!recording_) return;
  const void* const pc = callers_.of(hook);
  source_.settle();
  if (mutation_.kind != Mutation::Kind::none && mutation_.pc == pc) return;
  source_.add(Event::Kind::fence, 0, 0, 0, pc);
}

void Watch::stream(const void* address, std::size_t bytes, const void* pc) {
  count();
  if (!source_.holds(address) || bytes == 0) return;
  const std::uint32_t at = source_.offset_of(address);
  if (recording_) source_.settle();
  if (asking_) meet_lines(at, bytes, true);
  change(at, bytes);
  if (recording_) source_.begin_stream(0, address, bytes, callers_.of(pc));
}

void Watch::foreign_flush(const void* address, std::size_t bytes, const void* pc) {
  if (!recording_) return;
  if (copy_ == nullptr)
    early_.emplace_back(address, bytes);
  else
    source_.foreign_flush(0, address, bytes, pc);
}

void Watch::foreign_fence(const void* pc) {
  if (!recording_ || copy_ == nullptr) return;
  source_.settle();
  source_.add(Event::Kind::fence, 0, 0, 0, pc);
}

// What libpmemobj did while it opened the pool is trusted: all of it is durable now.
void Watch::mapped(const void* base, std::size_t bytes) {
  if (!copies_ || bytes != image_.bytes()) return;
  copy_ = static_cast<const std::byte*>(base);
  look_at(base, bytes);
  source_.explain_from(image_.base(), copy_);
  if (!recording_) return;
  for (const auto& [address, length] : early_) source_.foreign_flush(0, address, length, nullptr);
  early_.clear();
  source_.add(Event::Kind::fence, 0, 0, 0, nullptr);
}

// Memory that is mapped there later is not part of the pool.
void Watch::unmapped(const void*) {
  if (!copies_) return;
  if (recording_) source_.settle();
  copy_ = nullptr;
  look_at(nullptr, 0);
  source_.explain_from(nullptr, nullptr);
}

void Watch::pause(const void*) {
  count();
  if (++pauses_ > most_pauses) stop(Ending::out_of_steps);
}

}  // namespace perdure::crash
