#include "crash/trace_replay.h"

#include "core/assert.h"

namespace perdure::crash {
namespace {

LineNumber line_of(const Event& event) { return static_cast<LineNumber>(event.at / line_bytes); }

Persistency::Flush flush_of(const Event& event) {
  return static_cast<Persistency::Flush>(event.size);
}

Image& loaded(const Recorded& run, Image& image) {
  PERDURE_ASSERT(run.before.size() == image.bytes());
  image.load(run.before.data());
  return image;
}

}  // namespace

TraceReplay::TraceReplay(const Trace& trace, Image& image, Rules rules)
    : trace_(trace), model_(image, image.lines(), rules.domain, rules.threads, rules.reorder) {}

TraceReplay::TraceReplay(const Recorded& run, Image& image, Rules rules)
    : TraceReplay(run.trace, loaded(run, image), rules) {}

void TraceReplay::step() {
  const Event& event = trace_[at_];
  switch (event.kind) {
    case Event::Kind::store:
      model_.store(event.thread, event.at, event.size, event.value, at_, event.group, event.plain);
      break;
    case Event::Kind::stream:
      model_.stream(event.thread, event.at, event.value, at_);
      break;
    case Event::Kind::flush:
      model_.flush(event.thread, line_of(event), flush_of(event));
      break;
    case Event::Kind::fence:
    case Event::Kind::locked:
      model_.fence(event.thread);
      break;
    case Event::Kind::run:
      if (event.thread != running_) model_.switched(running_);
      running_ = event.thread;
      break;
    case Event::Kind::call:
    case Event::Kind::ret:
      model_.order(event.thread);
      break;
  }
  ++at_;
}

bool TraceReplay::raises_floor() const {
  const Event& event = next();
  switch (event.kind) {
    case Event::Kind::fence:
    case Event::Kind::locked:
      return model_.fence_raises(event.thread);
    case Event::Kind::flush:
      return model_.flush_raises(line_of(event), flush_of(event));
    case Event::Kind::run:
      return event.thread != running_ && model_.switch_raises(running_);
    default:
      return false;
  }
}

}  // namespace perdure::crash
