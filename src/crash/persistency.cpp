#include "crash/persistency.h"

#include <algorithm>
#include <bit>

#include "core/assert.h"

namespace perdure::crash {
namespace {

/// Streamed words of one line whose subsets are all tried; of more, a linear number is.
constexpr unsigned most_streams_tried_fully = 4;

std::vector<std::uint64_t> subsets_of(unsigned streams) {
  std::vector<std::uint64_t> subsets;
  if (streams <= most_streams_tried_fully) {
    for (std::uint64_t subset = 0; subset < std::uint64_t{1} << streams; ++subset)
      subsets.push_back(subset);
    return subsets;
  }
  const std::uint64_t all = streams >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << streams) - 1;
  subsets.push_back(0);
  for (unsigned i = 0; i < std::min(streams, 64U); ++i) subsets.push_back(std::uint64_t{1} << i);
  for (unsigned i = 0; i < std::min(streams, 64U); ++i)
    subsets.push_back(all & ~(std::uint64_t{1} << i));
  subsets.push_back(all);
  return subsets;
}

}  // namespace

const char* name_of(Domain domain) noexcept { return domain == Domain::adr ? "adr" : "eadr"; }

Persistency::Persistency(Media& media, std::uint32_t lines, Domain domain, unsigned threads,
                         bool reorder)
    : media_(media), domain_(domain), reorder_(reorder), index_(lines, -1), threads_(threads) {}

Persistency::Line& Persistency::line_of(LineNumber line) {
  PERDURE_ASSERT(line < index_.size());
  if (index_[line] < 0) {
    index_[line] = static_cast<std::int32_t>(lines_.size());
    lines_.emplace_back();
  }
  return lines_[static_cast<std::size_t>(index_[line])];
}

const Persistency::Line* Persistency::find(LineNumber line) const {
  if (line >= index_.size() || index_[line] < 0) return nullptr;
  return &lines_[static_cast<std::size_t>(index_[line])];
}

void Persistency::add(LineNumber line, const Step& step) {
  Line& of = line_of(line);
  if (of.steps.empty()) open_.insert(std::ranges::lower_bound(open_, line), line);
  of.steps.push_back(step);
  of.is_known = of.is_known && append_choice(of);
}

// Lines that are never flushed, locks above all, get longer and longer.
bool Persistency::append_choice(const Line& of) {
  const Step& step = of.steps.back();
  if (!of.may_append || step.streamed || step.group != 0 || step.run != 0) return false;
  Choice next{of.choices.back().content, static_cast<std::uint32_t>(of.steps.size()), 0};
  apply(step, next.content);
  if (std::ranges::find(of.choices, next.content, &Choice::content) != of.choices.end())
    return false;
  of.choices.push_back(next);
  of.undecided |= differing(of.choices.front().content, next.content);
  return true;
}

void Persistency::apply(const Step& step, LineContent& content) noexcept {
  content[step.word] = (content[step.word] & ~step.mask) | (step.value & step.mask);
}

bool is_kept(const Choice& choice, std::uint32_t number) noexcept {
  if (number < choice.kept_steps) return true;
  const std::uint32_t behind = number - choice.kept_steps;
  return behind < 64 && (choice.kept_early >> behind & 1) != 0;
}

void divide(const Choice& choice, std::span<const Step> steps, std::vector<std::uint32_t>& lost,
            std::vector<std::uint32_t>& kept) {
  std::uint32_t cached = 0;
  unsigned stream = 0;
  for (const Step& step : steps) {
    const bool there = step.streamed ? step.durable || (choice.kept_streams >> stream++ & 1) != 0
                                     : is_kept(choice, cached++);
    (there ? kept : lost).push_back(step.event);
  }
}

void Persistency::store(unsigned thread, std::uint64_t at, unsigned size, std::uint64_t value,
                        std::uint32_t event, std::uint32_t group, bool plain) {
  const auto shift = static_cast<unsigned>(at % word_bytes * 8);
  PERDURE_ASSERT(size > 0 && at % word_bytes + size <= word_bytes);
  const std::uint64_t bits =
      size == word_bytes ? ~std::uint64_t{0} : (std::uint64_t{1} << size * 8) - 1;
  if (!plain) order(thread);
  // One number for each run of each thread.
  const std::uint32_t run =
      reorder_ && plain
          ? 1 + thread + threads_[thread].run * static_cast<std::uint32_t>(threads_.size())
          : 0;
  const Step step{event,
                  group,
                  run,
                  static_cast<std::uint8_t>(thread),
                  static_cast<std::uint8_t>(at % line_bytes / word_bytes),
                  false,
                  false,
                  bits << shift,
                  value << shift};
  const auto line = static_cast<LineNumber>(at / line_bytes);
  if (domain_ == Domain::eadr) {
    threads_[thread].buffer.push_back({line, step});
    return;
  }
  add(line, step);
}

void Persistency::stream(unsigned thread, std::uint64_t at, std::uint64_t value,
                         std::uint32_t event) {
  PERDURE_ASSERT(at % word_bytes == 0);
  const auto line = static_cast<LineNumber>(at / line_bytes);
  add(line, {event, 0, 0, static_cast<std::uint8_t>(thread),
             static_cast<std::uint8_t>(at % line_bytes / word_bytes), true, false,
             ~std::uint64_t{0}, value});
  threads_[thread].streamed.push_back(line);
}

void Persistency::flush(unsigned thread, LineNumber line, Flush kind) {
  order(thread);
  if (domain_ == Domain::eadr) return;
  const Line* const of = find(line);
  if (of == nullptr || of->steps.empty()) return;
  const std::uint64_t upto = of->first + of->steps.size();
  if (kind == Flush::clflush)
    raise(line, upto);
  else
    threads_[thread].captured.push_back({line, upto});
}

void Persistency::fence(unsigned thread) {
  Thread& mine = threads_[thread];
  order(thread);
  drain(mine);
  for (const LineNumber line : mine.streamed) {
    Line& of = line_of(line);
    for (Step& step : of.steps)
      if (step.streamed && step.thread == thread) step.durable = true;
    of.is_known = false;
    raise(line, 0);
  }
  mine.streamed.clear();
  for (const Captured& captured : mine.captured) raise(captured.line, captured.upto);
  mine.captured.clear();
}

void Persistency::switched(unsigned from) { drain(threads_[from]); }

void Persistency::drain(Thread& thread) {
  for (const Waiting& waiting : thread.buffer) {
    LineContent content = media_.read(waiting.line);
    apply(waiting.step, content);
    media_.write(waiting.line, content);
  }
  thread.buffer.clear();
}

// Folds what has become certain into the floor. A certain step after an uncertain one stays in the
// list, because steps are numbered, but without effect; nor has the older one any left in its bits.
void Persistency::raise(LineNumber line, std::uint64_t upto) {
  Line& of = line_of(line);
  if (of.steps.empty()) return;
  of.certain = std::max(of.certain, upto);
  of.is_known = false;
  LineContent content = media_.read(line);
  const auto is_certain = [&](std::size_t i) {
    return of.steps[i].streamed ? of.steps[i].durable : of.first + i < of.certain;
  };
  std::size_t done = 0;
  for (; done < of.steps.size() && is_certain(done); ++done) apply(of.steps[done], content);
  for (std::size_t i = done; i < of.steps.size(); ++i) {
    Step& step = of.steps[i];
    if (!is_certain(i)) continue;
    apply(step, content);
    for (std::size_t older = done; older < i; ++older)
      if (of.steps[older].word == step.word) of.steps[older].mask &= ~step.mask;
    step.mask = 0;
  }
  of.steps.erase(of.steps.begin(), of.steps.begin() + static_cast<std::ptrdiff_t>(done));
  of.first += done;
  media_.write(line, content);
  if (of.steps.empty()) open_.erase(std::ranges::lower_bound(open_, line));
}

bool Persistency::fence_raises(unsigned thread) const {
  const Thread& mine = threads_[thread];
  if (!mine.buffer.empty() || !mine.streamed.empty()) return true;
  return std::ranges::any_of(mine.captured, [&](const Captured& captured) {
    const Line* const of = find(captured.line);
    return of != nullptr && !of->steps.empty() && captured.upto > std::max(of->first, of->certain);
  });
}

bool Persistency::switch_raises(unsigned thread) const { return !threads_[thread].buffer.empty(); }

bool Persistency::flush_raises(LineNumber line, Flush kind) const {
  return domain_ == Domain::adr && kind == Flush::clflush && is_dirty(line);
}

bool Persistency::is_dirty(LineNumber line) const {
  const Line* const of = find(line);
  return of != nullptr && !of->steps.empty();
}

bool Persistency::has_work(unsigned thread) const {
  const Thread& mine = threads_[thread];
  return !mine.buffer.empty() || !mine.streamed.empty() || !mine.captured.empty();
}

std::span<const Step> Persistency::steps(LineNumber line) const {
  const Line* const of = find(line);
  return of == nullptr ? std::span<const Step>{} : std::span<const Step>(of->steps);
}

std::vector<std::uint64_t> Persistency::early_ones(std::span<const Step> cached, std::size_t kept,
                                                   std::size_t certain) {
  std::vector<std::uint64_t> none{0};
  if (kept >= cached.size() || cached[kept].run == 0) return none;
  if (kept > certain && cached[kept - 1].run == cached[kept].run) return none;  // told at its begin
  unsigned length = 0;
  while (kept + length < cached.size() && cached[kept + length].run == cached[kept].run) ++length;
  return subsets_of(std::min(length, 63U));
}

std::span<const Choice> Persistency::choices(LineNumber line) const {
  const Line* const of = find(line);
  if (of == nullptr) return {};
  know_choices(line, *of);
  return of->choices;
}

Persistency::Possible Persistency::possible(LineNumber open) const {
  const Line& of = lines_[static_cast<std::size_t>(index_[open])];
  know_choices(open, of);
  return {of.choices, of.undecided};
}

void Persistency::know_choices(LineNumber line, const Line& of) const {
  // Under ADR the floor of a line with steps moves in `raise` only.
  if (of.is_known && domain_ == Domain::adr) return;
  const LineContent floor = media_.read(line);
  if (of.is_known && of.floor == floor) return;
  of.is_known = true;
  of.floor = floor;
  std::vector<Choice>& all = of.choices;
  all.clear();
  const std::span<const Step> steps = of.steps;
  unsigned streams = 0;
  std::uint32_t certain = 0;
  std::vector<Step> cached;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].streamed)
      streams += steps[i].durable ? 0 : 1;
    else
      cached.push_back(steps[i]), certain += of.first + i < of.certain ? 1 : 0;
  }
  const std::vector<std::uint64_t> subsets = subsets_of(streams);
  for (std::uint32_t kept = certain; kept <= cached.size(); ++kept) {
    if (kept > 0 && kept < cached.size() && cached[kept].group != 0 &&
        cached[kept].group == cached[kept - 1].group)
      continue;  // M3
    for (const std::uint64_t early : early_ones(cached, kept, certain))
      for (const std::uint64_t subset : subsets) {
        Choice choice{floor, kept, subset, early};
        std::uint32_t seen = 0;
        unsigned stream = 0;
        for (const Step& step : steps)
          if (step.streamed ? step.durable || (subset >> (stream++ & 63U) & 1) != 0
                            : is_kept(choice, seen++))
            apply(step, choice.content);
        const bool known = std::ranges::any_of(
            all, [&](const Choice& other) { return other.content == choice.content; });
        if (!known) all.push_back(choice);
      }
  }
  // The newest content last, where an older one was the same.
  LineContent last = floor;
  for (const Step& step : steps) apply(step, last);
  const auto newest = std::ranges::find(all, last, &Choice::content);
  if (newest != all.end() && newest != all.begin()) std::rotate(newest, newest + 1, all.end());
  of.may_append = cached.size() == steps.size() && all.back().content == last &&
                  all.back().kept_steps == steps.size();
  of.undecided = 0;
  for (const Choice& choice : all) of.undecided |= differing(all.front().content, choice.content);
}

std::vector<Persistency::Buffered> Persistency::buffered() const {
  std::vector<Buffered> states;
  for (const Thread& thread : threads_) {
    std::vector<std::pair<LineNumber, LineContent>> latest;
    for (std::size_t i = 0; i < thread.buffer.size(); ++i) {
      const Waiting& waiting = thread.buffer[i];
      auto at = std::ranges::find(latest, waiting.line, &std::pair<LineNumber, LineContent>::first);
      if (at == latest.end())
        at = latest.insert(latest.end(), {waiting.line, media_.read(waiting.line)});
      apply(waiting.step, at->second);
      const bool torn = waiting.step.group != 0 && i + 1 < thread.buffer.size() &&
                        thread.buffer[i + 1].step.group == waiting.step.group;
      states.push_back({at->first, at->second, torn, waiting.step.event});
    }
  }
  return states;
}

}  // namespace perdure::crash
