#include "crash/explorer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/assert.h"

namespace perdure::crash {
namespace {

/// The product of the numbers of choices, or `most` + 1 when it is more.
template <class Lines>
std::uint64_t product_of(const Lines& open, std::uint64_t most) {
  std::uint64_t product = 1;
  for (const auto& line : open) {
    product *= line.choices.size();
    if (product > most) return most + 1;
  }
  return product;
}

/// The next combination in mixed radix; false when all are through.
template <class Lines>
bool next_combination(const Lines& open, std::vector<std::uint32_t>& chosen) {
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (++chosen[i] < open[i].choices.size()) return true;
    chosen[i] = 0;
  }
  return false;
}

}  // namespace

void Coverage::add(const Coverage& other) {
  points += other.points;
  exhausted += other.exhausted;
  sampled += other.sampled;
  states += other.states;
  repeats += other.repeats;
  alike += other.alike;
  deep += other.deep;
  recovery_cuts += other.recovery_cuts;
  given_up += other.given_up;
}

Explorer::Explorer(const Subject& subject, const Vocabulary& vocabulary, Image& image, Watch& watch,
                   Domain domain, Bounds bounds)
    : subject_(subject),
      vocabulary_(vocabulary),
      image_(image),
      watch_(watch),
      domain_(domain),
      bounds_(bounds),
      known_(image) {
  watch_.expect_keys(vocabulary.keys());
}

void Explorer::begin(const Recorded& run, unsigned threads) {
  run_ = &run;
  replay_.emplace(run, image_, TraceReplay::Rules{domain_, threads, bounds_.reorder});
  history_ = specify(subject_, vocabulary_, run);
  created_ = creating_ = false;
  now_ = 0;
  window_end_ = 0;
  seen_.clear();
}

/// How many points of the run lie from one that is tried to the next.
std::size_t Explorer::points_apart(const Recorded& run) const {
  const std::size_t events =
      run.trace.size() - std::min<std::size_t>(run.explored_from, run.trace.size());
  std::size_t apart = 1;
  if (bounds_.points != 0) {
    constexpr std::size_t events_a_point = 4;  // of most indexes
    apart = std::max<std::size_t>(1, events / (events_a_point * bounds_.points));
  }
  if (subject_.heap != HeapKind::pmdk) return apart;
  // To open a pool of libpmemobj takes milliseconds: few points of many programs.
  constexpr std::size_t events_a_point = 64;
  constexpr std::size_t farthest_apart = 32;
  return std::max(apart, std::clamp<std::size_t>(events / events_a_point, 1, farthest_apart));
}

std::optional<Violation> Explorer::explore(const Recorded& run, unsigned threads,
                                           const std::function<bool()>& deadline_passed) {
  begin(run, threads);
  deadline_passed_ = deadline_passed;
  const std::size_t apart = points_apart(run);
  std::size_t points = mix64(run.trace.size());  // which of them are tried changes from run to run
  for (std::uint32_t event = 0; event <= run.trace.size(); ++event) {
    now_ = event;
    const bool tells = event >= run.explored_from && (run.telling.empty() || run.telling[event]);
    if (tells && is_point(event) && points++ % apart == 0) {
      if (event >= window_end_) open_window(event);
      if (Found found = point(event)) return with_loss_told(std::move(found));
      if (is_late()) break;
    }
    if (event == run.trace.size() || coverage_.states >= bounds_.states) break;
    if (Found found = step(event)) return found;
    if (!history_->gave_up()) continue;
    ++coverage_.given_up;
    return std::nullopt;
  }
  if (run.hung)
    return violated_live(Oracle::time_out, "the run itself hangs: a thread waits for ever");
  return std::nullopt;
}

bool Explorer::is_point(std::uint32_t event) const {
  const Trace& trace = run_->trace;
  if (event > 0 && trace[event - 1].kind == Event::Kind::ret) return true;
  if (event == trace.size()) return !run_->hung;
  return replay_->raises_floor();
}

Explorer::Found Explorer::step(std::uint32_t number) {
  if (number == run_->recovers_from) history_->cut();
  const Event& event = run_->trace[number];
  replay_->step();
  if (event.kind == Event::Kind::call) {
    creating_ = creating_ || run_->operations[event.at].action == Action::create;
    history_->call(event.at);
  } else if (event.kind == Event::Kind::ret) {
    created_ = created_ || run_->operations[event.at].action == Action::create;
    const std::string wrong = history_->ret(event.at);
    if (!wrong.empty()) {
      Found found = violated_live(Oracle::answers, wrong);
      found->open = {event.at};
      return found;
    }
  }
  return std::nullopt;
}

// A window holds several operations, because the state that one leaves is the state in which the
// next one begins. With more lines, each state that is read would have to be compared in all of
// them.
void Explorer::open_window(std::uint32_t begin) {
  constexpr std::size_t most_lines = 512;
  constexpr unsigned most_returns = 12;
  Known::Varying varying;
  for (const OpenLine& open : open_lines(model())) varying[open.line] |= open.bytes;
  for (const Persistency::Buffered& waiting : model().buffered())
    varying[waiting.line] |= differing(image_.read(waiting.line), waiting.content);
  std::set<std::uint16_t> asked;
  const auto ask_for = [&](std::uint32_t number) {
    const Operation& operation = run_->operations[number];
    if (has_key(operation.action)) asked.insert(operation.key);
  };
  for (const std::uint32_t open : history_->open()) ask_for(open);
  std::uint32_t event = begin;
  for (unsigned returns = 0; event < run_->trace.size() && returns < most_returns; ++event) {
    if (varying.size() >= most_lines && event > begin) break;
    const Event& next = run_->trace[event];
    Known::vary(varying, next);
    if (next.kind == Event::Kind::call) ask_for(next.at);
    if (next.kind == Event::Kind::ret) ++returns;
  }
  window_end_ = event + 1;  // the point before `event` is one of them
  known_.begin(varying);
  questions_.clear();
  if (bounds_.lookups) questions_.assign(asked.begin(), asked.end());
}

Explorer::Found Explorer::point(std::uint32_t event) {
  ++coverage_.points;
  buffer_.reset();
  const OpenLines open = open_lines(model());
  Found found;
  if (domain_ == Domain::eadr) {
    bool finished = false;
    found = buffered(finished);
    ++(finished ? coverage_.exhausted : coverage_.sampled);
  } else if (product_of(open, bounds_.product) <= bounds_.product) {
    ++coverage_.exhausted;
    found = all_products(open);
  } else {
    bool finished = false;
    // What code without hooks reads is not told: no line's content can wait for that.
    if (subject_.heap == HeapKind::slab) found = lazily(open, finished);
    if (!found && !finished) found = recent_products(open);
    if (!found && !finished && subject_.heap == HeapKind::slab) found = linearly(open);
    ++(finished ? coverage_.exhausted : coverage_.sampled);
  }
  constexpr std::uint64_t points_between_checks = 64;
  if (!found && (coverage_.points % points_between_checks == 1 || event == run_->trace.size()))
    if (const std::int64_t at = image_.verify(); at >= 0)
      found = violated(Oracle::hooks,
                       "byte " + std::to_string(at) + " of the image changed without a hook");
  return found;
}

Explorer::Found Explorer::all_products(const OpenLines& open) {
  Choices chosen(open.size(), 0);
  do {
    if (Found found = state(open, chosen)) return found;
  } while (next_combination(open, chosen));
  return std::nullopt;
}

// The lines written last in every combination, the others all oldest or all newest.
Explorer::Found Explorer::recent_products(const OpenLines& open) {
  std::vector<std::size_t> order(open.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return model().steps(open[a].line).back().event > model().steps(open[b].line).back().event;
  });
  OpenLines recent;
  std::vector<std::size_t> place;
  std::uint64_t product = 1;
  for (const std::size_t i : order) {
    product *= open[i].choices.size();
    if (product > bounds_.product) break;
    recent.push_back(open[i]);
    place.push_back(i);
  }
  std::vector<std::uint32_t> some(recent.size(), 0);
  do {
    for (Choices chosen : {oldest(open), newest(open)}) {
      for (std::size_t i = 0; i < some.size(); ++i) chosen[place[i]] = some[i];
      if (Found found = state(open, chosen)) return found;
    }
  } while (next_combination(recent, some));
  return std::nullopt;
}

Explorer::Found Explorer::linearly(const OpenLines& open) {
  for (const Choices& others : {oldest(open), newest(open)}) {
    for (std::size_t i = 0; i < open.size() && !is_late(); ++i) {
      Choices chosen = others;
      for (std::uint32_t c = 0; c < open[i].choices.size(); ++c) {
        chosen[i] = c;
        if (Found found = state(open, chosen)) return found;
      }
    }
  }
  return std::nullopt;
}

// eADR: every prefix of the store buffer, with every choice of streamed words on top.
Explorer::Found Explorer::buffered(bool& finished) {
  const auto waiting = model().buffered();
  Found found;
  finished = true;
  image_.mark();
  for (std::uint32_t kept = 0; kept <= waiting.size() && !found; ++kept) {
    if (is_late()) {
      finished = false;
      break;
    }
    if (kept > 0) image_.write(waiting[kept - 1].line, waiting[kept - 1].content);
    if (kept > 0 && waiting[kept - 1].torn) continue;
    buffer_ = buffer_state(waiting, kept);
    const OpenLines open = open_lines(model());
    const bool all = product_of(open, bounds_.product) <= bounds_.product;
    found = all ? all_products(open) : linearly(open);
    finished = finished && all;
  }
  image_.undo();
  return found;
}

std::uint64_t Explorer::content_digest(const OpenLines& open, const Choices& chosen) const {
  std::uint64_t sum = image_.floor_digest();
  for (std::size_t i = 0; i < open.size(); ++i)
    if (chosen[i] != 0)
      sum ^= digest(open[i].line, open[i].choices[0].content) ^
             digest(open[i].line, open[i].choices[chosen[i]].content);
  return buffer_ ? mix64(sum) + buffer_->choice : sum;
}

Explorer::Found Explorer::state(const OpenLines& open, const Choices& chosen) {
  const std::uint64_t content = content_digest(open, chosen);
  std::uint64_t key = content ^ mix64(history_->digest() + created_);
  if (buffer_) key = mix64(key ^ now_) + buffer_->choice;
  if (!seen_.insert(key).second) {
    ++coverage_.repeats;
    return std::nullopt;
  }
  const bool deep = is_deep(content);
  ++coverage_.states;
  image_.mark();
  write_lines(open, chosen, image_);
  // A second cut reads in other states.
  Found found = deep ? judge(true) : judge_unless(known_);
  image_.undo();
  if (found) describe(*found, open, chosen);
  return found;
}

Explorer::Found Explorer::violated(Oracle oracle, std::string what) const {
  Violation violation;
  violation.oracle = oracle;
  violation.what = std::move(what);
  violation.event = now_;
  if (history_) violation.open = history_->open();
  violation.continued = continued_;
  violation.block_fault = block_fault_;
  violation.blocks = blocks_;
  return violation;
}

Explorer::Found Explorer::violated_live(Oracle oracle, std::string what) const {
  Found found = violated(oracle, std::move(what));
  found->fails_without_loss = true;
  found->continued.clear();
  found->block_fault = BlockFault::none;
  found->blocks.clear();
  return found;
}

Explorer::Found Explorer::with_loss_told(Found found) {
  if (!found || found->fails_without_loss) return found;
  const bool nothing_lost = found->lines.empty() && found->recovery_lines.empty();
  const unsigned second_cuts = std::exchange(bounds_.recrash_states, 0);
  const Found newest = nothing_lost ? found : judge_newest();
  bounds_.recrash_states = second_cuts;
  found->fails_without_loss = newest && newest->oracle == found->oracle;
  return found;
}

// The store buffer is drained, and every line holds its newest content.
Explorer::Found Explorer::judge_newest() {
  image_.mark();
  static_cast<void>(write_state(model(), {}, image_));
  Found found = judge(true);
  image_.undo();
  return found;
}

void Explorer::describe(Violation& violation, const OpenLines& open, const Choices& chosen) const {
  if (buffer_ && buffer_->choice + 1 < buffer_->choices) violation.lines.push_back(*buffer_);
  std::ranges::move(older_lines(model(), open, chosen), std::back_inserter(violation.lines));
}

std::optional<Violation> Explorer::judge_one(const Recorded& run, unsigned threads,
                                             std::uint32_t event,
                                             const std::vector<LineState>& lines) {
  begin(run, threads);
  // Every key that a window may have looked up.
  questions_.clear();
  const bool lookups = bounds_.lookups && !subject_.is_queue();
  for (std::uint16_t key = 0; lookups && key < vocabulary_.keys(); ++key) questions_.push_back(key);
  for (std::uint32_t i = 0; i < event && i < run.trace.size(); ++i) {
    now_ = i;
    if (Found found = step(i)) return found;
  }
  now_ = event;
  buffer_.reset();
  image_.mark();
  const CrashState made = write_state(model(), lines, image_);
  if (domain_ == Domain::eadr) buffer_ = buffer_state(made.waiting, made.kept);
  ++coverage_.states;
  Found found = judge(true);
  image_.undo();
  if (found) describe(*found, made.open, made.chosen);
  return with_loss_told(std::move(found));
}

}  // namespace perdure::crash
