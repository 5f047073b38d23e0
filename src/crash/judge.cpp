// The explorer's oracles: how one crash state is judged.
#include <algorithm>

#include "crash/explorer.h"
#include "crash/history.h"

namespace perdure::crash {

// To see what a queue holds empties it, so the continued workload begins in the same state again.
Explorer::Found Explorer::judge(bool deep) {
  if (deep && subject_.is_queue())
    if (Found found = judge_once(false)) return found;
  return judge_once(deep);
}

Explorer::Found Explorer::judge_once(bool deep) {
  Recovered recovered;
  Oracle oracle = Oracle::recovery;
  std::string what;
  continued_.clear();
  block_fault_ = BlockFault::none;
  blocks_.clear();
  image_.mark();
  watch_.record(deep);
  const Ending ending = watch_.run([&] {
    recovered = recover(subject_, vocabulary_, image_.memory());
    // What recovers beside the operations does so here at once half of the time, so that cuts fall
    // into it; else the operations of `go_on` run into it.
    if (deep && number() % 2 == 0 && recovered.instance && recovered.instance->is_recovering())
      recovered.instance->quiesce();
    if (deep) {
      recovery_trace_ = watch_.take_trace();
      watch_.record(false);
    }
    ask(recovered, oracle, what, deep);
    recovered.instance.reset();
  });
  watch_.record(false);
  image_.undo();
  if (ending != Ending::returned) return ended(ending, recovered);
  if (block_fault_ != BlockFault::none && !names_blocks_) return judge_naming_blocks();
  if (!what.empty()) return violated(oracle, std::move(what));
  if (!deep) return std::nullopt;
  ++coverage_.deep;
  return cut_recovery();
}

Explorer::Found Explorer::ended(Ending ending, Recovered& recovered) {
  static_cast<void>(recovered.instance.release());  // see Watch::run
  if (const std::byte* const copy = watch_.copy()) {
    static_cast<void>(watch_.run([&] { close_copy(copy); }));
    watch_.unmapped(copy);
  }
  if (ending == Ending::out_of_steps)
    return violated(Oracle::time_out, "recovery, or the first use after it, does not end");
  return violated(Oracle::recovery,
                  std::string("recovery, or the first use after it, ") + name_of(ending));
}

Explorer::Found Explorer::judge_naming_blocks() {
  names_blocks_ = true;
  block_history_ = {};
  Found found = judge(true);
  names_blocks_ = false;
  return found;
}

/// The pool must not say that it was closed.
bool Explorer::is_in_use() const { return now_ >= run_->in_use_from; }

bool Explorer::is_allowed(const Known::Outcome& outcome) const {
  if (outcome.closed && is_in_use()) return false;
  if (outcome.absent) return !created_;
  return history_->allows(outcome.found);
}

// Code without hooks does not show what it reads, and whether a value may be torn depends on more
// than the contents.
bool Explorer::may_be_known() const {
  return subject_.heap == HeapKind::slab && subject_.tearing() == Tearing::nothing;
}

Known::Outcome Explorer::outcome() const {
  return {absent_, closed_, absent_ ? Contents{} : found_};
}

Explorer::Found Explorer::judge_unless(Known& known) {
  if (!may_be_known()) return judge(false);
  if (const Known::Outcome* const found = known.find(); found != nullptr && is_allowed(*found)) {
    ++coverage_.alike;
    return std::nullopt;
  }
  known.follow(watch_);
  Found found = judge(false);
  known.unfollow(watch_);
  if (!found) known.learn(outcome());
  return found;
}

void Explorer::ask(Recovered& recovered, Oracle& oracle, std::string& what, bool deep) {
  const auto failed = [&](Oracle which, std::string why) {
    oracle = which;
    what = std::move(why);
    return !what.empty();
  };
  if (!recovered.problem.empty()) {
    if (!may_tear(Tearing::structure)) failed(Oracle::recovery, recovered.problem);
    return;
  }
  absent_ = recovered.absent;
  closed_ = recovered.was_closed;
  if (closed_ && is_in_use()) {
    failed(Oracle::recovery, "the pool says that it was closed, and it was in use");
    return;
  }
  if (recovered.absent) {
    if (created_)
      failed(Oracle::linearizability, std::string("the ") + subject_.noun() + " is gone");
    return;
  }
  Instance& instance = *recovered.instance;
  const bool compares = !(deep && subject_.is_queue());  // see `judge`
  if ((compares && failed(Oracle::linearizability, compare(instance))) ||
      (!(deep && instance.is_recovering()) && failed(Oracle::invariants, instance.check()))) {
    if (may_tear(Tearing::structure)) what.clear();
    return;
  }
  if (!deep) return;
  if (failed(Oracle::continued, go_on(instance, number()))) return;
  instance.quiesce();
  if (failed(Oracle::invariants, instance.check())) return;
  live_blocks_ = instance.usage().live_blocks;
  if (names_blocks_) live_extents_ = instance.live_extents();
  image_.take(instance.memory().data());
  recovered.instance.reset();
  failed(Oracle::continued, reopen());
}

/// True where the subject's failure contract lets the operation under way (`key`: one that replaces
/// that key's value) leave something half done.
bool Explorer::may_tear(Tearing what, std::optional<std::uint16_t> key) const {
  if (subject_.tearing() < what) return false;
  return std::ranges::any_of(history_->open(), [&](std::uint32_t open) {
    const Operation& operation = run_->operations[open];
    const bool replaces = operation.action == Action::update || operation.action == Action::upsert;
    if (key) return replaces && operation.key == *key;
    return operation.action != Action::lookup && operation.action != Action::scan;
  });
}

std::string Explorer::compare(Instance& instance) {
  if (std::string wrong = instance.contents(found_); !wrong.empty()) return wrong;
  const auto may_be_torn = [this](std::uint16_t key) { return may_tear(Tearing::values, key); };
  if (std::string wrong = history_->objection(found_, may_be_torn); !wrong.empty()) return wrong;
  if (subject_.is_queue()) return {};
  const auto& keys = static_cast<const History&>(*history_);
  for (const std::uint16_t key : questions_) {
    const std::uint64_t found = instance.lookup(key);
    if (found != found_[key]) return "by lookup, " + keys.told(key, found);
  }
  return instance.count_wrongly(found_);
}

/// What the continued workload starts from.
std::unique_ptr<Model> Explorer::expected_of(const Instance& instance) const {
  if (!subject_.is_queue()) return model_of(subject_, vocabulary_, instance, found_);
  QueueStates states = static_cast<const QueueHistory&>(*history_).states();
  states.cut();
  return std::make_unique<QueueModel>(std::move(states));
}

// A short workload on the recovered structure, against a model. `found_` holds what an index starts
// from.
std::string Explorer::go_on(Instance& instance, std::uint64_t seed) {
  Rng rng(seed, 5);
  expected_ = expected_of(instance);
  if (names_blocks_) block_history_.note(instance, std::nullopt);
  for (unsigned i = 0; i < bounds_.continued; ++i) {
    const Operation operation = expected_->draw(rng, i);
    continued_.push_back({operation, {}});
    const Answer& answer = continued_.back().answer = instance.perform(operation);
    if (names_blocks_) block_history_.note(instance, i);
    if (std::string wrong = expected_->take(operation, answer); !wrong.empty())
      return "after recovery: " + wrong;
  }
  if (subject_.is_queue()) return {};  // `reopen` looks at what it holds
  const std::string wrong = compare_with_expected(instance);
  return wrong.empty() ? wrong : "after recovery and a few operations: " + wrong;
}

std::string Explorer::compare_with_expected(Instance& instance) {
  std::string wrong = instance.contents(found_);
  if (wrong.empty()) wrong = expected_->compare(found_);
  if (wrong.empty()) wrong = instance.count_wrongly(found_);
  return wrong;
}

// Recovers once more, without a power cut, what the continued workload left.
std::string Explorer::reopen() {
  Recovered again = recover(subject_, vocabulary_, image_.memory());
  if (!again.problem.empty()) return "the next recovery fails: " + again.problem;
  if (again.absent) return std::string("the ") + subject_.noun() + " is gone at the next recovery";
  std::uint64_t reached = 0;
  std::vector<Heap::Extent> extents;
  const auto look_at_heap = [&] {
    reached = again.instance->usage().live_blocks;
    if (names_blocks_) extents = again.instance->live_extents();
  };
  if (subject_.is_queue()) look_at_heap();  // to see what a queue holds empties it
  if (const std::string wrong = compare_with_expected(*again.instance); !wrong.empty())
    return "at the next recovery: " + wrong;
  if (again.instance->is_recovering()) again.instance->quiesce();
  if (!subject_.is_queue()) look_at_heap();
  block_fault_ = fault_of(live_blocks_, reached);
  if (block_fault_ != BlockFault::none && names_blocks_)
    blocks_ = differing_blocks(live_extents_, extents);
  for (FaultyBlock& faulty : blocks_) faulty.reserved_by = block_history_.of(faulty.block.offset);
  return tell_difference(subject_, live_blocks_, reached, blocks_, [&](std::uint32_t number) {
    const Operation& by = continued_[number].operation;
    return std::string(name_of(by.action)) +
           (has_key(by.action) ? " of key " + vocabulary_.show(by.key) : "");
  });
}

namespace {
/// A fence without a place: libpmemobj has opened the pool, and what it did for that is trusted.
bool is_of_opening(const Event& event) { return is_fence(event) && event.pc == nullptr; }
}  // namespace

// A second cut, inside the recovery that was just recorded: recovery must be idempotent.
Explorer::Found Explorer::cut_recovery() {
  const Trace trace = std::move(recovery_trace_);
  recovery_trace_.clear();
  if (std::ranges::none_of(trace, is_store)) return std::nullopt;
  unsigned left = bounds_.recrash_states;
  Found found;
  image_.mark();
  Known::Varying varying;
  for (const Event& event : trace) Known::vary(varying, event);
  Known known(image_);
  known.begin(varying);
  TraceReplay replay(trace, image_, {domain_, 1, bounds_.reorder});
  while (left > 0 && !found) {
    if (replay.at_end() || (replay.raises_floor() && !is_of_opening(replay.next())))
      found = cut_here(replay.model(), known, left);
    if (found) found->recovery_event = replay.at();
    if (replay.at_end()) break;
    replay.step();
  }
  if (found) found->recovery = trace;
  image_.undo();
  return found;
}

Explorer::Found Explorer::cut_here(const Persistency& model, Known& known, unsigned& left) {
  Found found;
  if (is_late()) left = 0;
  /// `write` makes the state.
  const auto one = [&](auto&& write, const std::vector<LineState>& lost) {
    if (left == 0) return;
    ++coverage_.recovery_cuts;
    const std::uint64_t alike = coverage_.alike;
    image_.mark();
    write();
    found = judge_unless(known);
    image_.undo();
    if (coverage_.alike == alike) --left;
    if (!found) return;
    found->what = "after a second cut, inside recovery: " + found->what;
    found->recovery_lines = lost;
  };
  const std::vector<Persistency::Buffered> waiting = model.buffered();
  for (std::size_t kept = 1; kept <= waiting.size(); ++kept) {
    if (waiting[kept - 1].torn) continue;
    std::vector<LineState> lost;
    if (kept < waiting.size()) lost.push_back(buffer_state(waiting, kept));
    one(
        [&] {
          for (std::size_t i = 0; i < kept; ++i) image_.write(waiting[i].line, waiting[i].content);
        },
        lost);
    if (found) return found;
  }
  // Each line's prefixes with the other lines at their oldest, and at their newest.
  const OpenLines open = open_lines(model);
  const auto choose = [&](const Choices& chosen) {
    if (found || left == 0) return;
    std::vector<LineState> lost = older_lines(model, open, chosen);
    if (!waiting.empty()) lost.push_back(buffer_state(waiting, 0));
    one([&] { write_lines(open, chosen, image_); }, lost);
  };
  const Choices all_oldest = oldest(open);
  const Choices all_newest = newest(open);
  choose(all_newest);
  for (std::size_t i = 0; i < open.size(); ++i)
    for (std::uint32_t choice = 0; choice < open[i].choices.size(); ++choice)
      for (const Choices* const others : {&all_oldest, &all_newest}) {
        Choices chosen = *others;
        chosen[i] = choice;
        choose(chosen);
      }
  return found;
}

}  // namespace perdure::crash
