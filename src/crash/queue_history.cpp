#include "crash/queue_history.h"

#include <algorithm>

#include "core/assert.h"

namespace perdure::crash {
namespace {

/// The first ones.
std::string show_all(std::span<const Contents> all, unsigned producers) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i)
    text += (i == 0 ? "" : " or ") + show_queue(all[i], producers);
  if (all.size() > most) text += " or " + std::to_string(all.size() - most) + " other contents";
  return text;
}

}  // namespace

QueueStates::QueueStates(QueueRules rules) : rules_(rules) {
  states_.front().last.assign(rules.producers, 0);
}

void QueueStates::call(const Operation& operation, const Answer& answer) {
  PERDURE_ASSERT(operation.thread < most_threads);
  open_.push_back({operation, answer});
  if (open_.size() > 1)
    for (Open& open : open_) open.excused = true;
  close_under_effects();
}

/// Every operation under way that has done nothing in `state` does what it can.
void QueueStates::take_effects(const State& state, std::vector<State>& next) const {
  for (const Open& open : open_) {
    const Operation& operation = open.operation;
    const unsigned thread = operation.thread;
    if (state.effect[thread] != none) continue;
    const auto add = [&](std::uint32_t effect) -> State& {
      next.push_back(state);
      next.back().effect[thread] = effect;
      return next.back();
    };
    // What changes no contents matters only to the answer.
    const auto answers = [&](Outcome outcome) {
      return open.answer.returned && open.answer.outcome == outcome;
    };
    if (operation.action == Action::push) {
      const auto stamp = static_cast<std::uint32_t>(operation.stamp);
      const bool full = state.payloads.size() >= rules_.capacity;
      if (!full) {
        State& made = add(pushed);
        made.payloads.push_back(stamp);
        if (thread < made.last.size()) made.last[thread] = stamp;
      }
      const bool refuses = full || open.excused || rules_.capacity == ~std::uint64_t{0};
      if (refuses && answers(Outcome::out_of_space)) add(refused);
    } else if (state.payloads.empty()) {
      if (answers(Outcome::not_found)) add(was_empty);
    } else {
      State& made = add(popped + state.payloads.front());
      made.payloads.erase(made.payloads.begin());
    }
  }
}

void QueueStates::sort_states() {
  std::ranges::sort(states_);
  states_.erase(std::unique(states_.begin(), states_.end()), states_.end());
}

void QueueStates::close_under_effects() {
  std::vector<State> frontier = states_;
  while (!frontier.empty() && !gave_up_) {
    std::vector<State> next;
    for (const State& state : frontier) take_effects(state, next);
    std::ranges::sort(next);
    next.erase(std::unique(next.begin(), next.end()), next.end());
    std::erase_if(next,
                  [&](const State& state) { return std::ranges::binary_search(states_, state); });
    states_.insert(states_.end(), next.begin(), next.end());
    sort_states();
    gave_up_ = states_.size() > most_states;
    frontier = std::move(next);
  }
}

bool QueueStates::ret(const Operation& operation, const Answer& answer) {
  std::erase_if(open_, [&](const Open& open) { return open.operation.thread == operation.thread; });
  if (gave_up_) return true;
  const bool pushes = operation.action == Action::push;
  std::uint32_t effect = none;
  if (answer.outcome == Outcome::ok)
    effect = pushes ? std::uint32_t{pushed} : popped + static_cast<std::uint32_t>(answer.stamp);
  if (pushes && answer.outcome == Outcome::out_of_space) effect = refused;
  if (!pushes && answer.outcome == Outcome::not_found) effect = was_empty;
  std::vector<State> kept;
  for (const State& state : states_) {
    if (effect == none || state.effect[operation.thread] != effect) continue;
    kept.push_back(state);
    kept.back().effect[operation.thread] = none;
  }
  if (kept.empty()) return false;
  states_ = std::move(kept);
  sort_states();
  return true;
}

void QueueStates::cut() {
  open_.clear();
  for (State& state : states_) state.effect = {};
  sort_states();
}

std::vector<Contents> QueueStates::contents(const Operation* before) const {
  std::vector<Contents> all;
  for (const State& state : states_) {
    if (before != nullptr && state.effect[before->thread] != none) continue;
    Contents& one = all.emplace_back(rules_.producers, 0);
    if (rules_.detectable) std::ranges::copy(state.last, one.begin());
    one.insert(one.end(), state.payloads.begin(), state.payloads.end());
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::size_t QueueStates::most_payloads() const {
  std::size_t most = 0;
  for (const State& state : states_) most = std::max(most, state.payloads.size());
  return most;
}

QueueHistory::QueueHistory(const std::vector<Operation>& operations,
                           const std::vector<Answer>& answers, QueueRules rules)
    : operations_(operations), answers_(answers), states_(rules) {
  settle();
}

void QueueHistory::call(std::uint32_t operation) {
  open_.push_back(operation);
  if (operations_[operation].action == Action::create) return;
  states_.call(operations_[operation], answers_[operation]);
  settle();
}

std::string QueueHistory::ret(std::uint32_t operation) {
  std::erase(open_, operation);
  const Operation& what = operations_[operation];
  const Answer& answer = answers_[operation];
  if (!answer.wrong.empty()) return answer.wrong;
  if (what.action == Action::create) return {};
  if (!states_.ret(what, answer)) {
    std::string text = std::string(name_of(what.action)) + " came to " + name_of(answer.outcome);
    if (what.action == Action::pop && answer.outcome == Outcome::ok)
      text += answer.stamp == bad_stamp ? " with a torn payload"
                                        : " with payload " + std::to_string(answer.stamp);
    return text + ", which no order of the operations explains: the queue held " +
           show_all(states_.contents(&what), states_.rules().producers);
  }
  settle();
  return {};
}

void QueueHistory::cut() {
  open_.clear();
  states_.cut();
  settle();
}

void QueueHistory::settle() {
  allowed_ = states_.gave_up() ? std::vector<Contents>{} : states_.contents();
  digest_ = states_.gave_up() ? 1 : 0;
  for (const Contents& each : allowed_) {
    digest_ = mix64(digest_ + each.size() + 1);
    for (const std::uint64_t word : each) digest_ = mix64(digest_ ^ word) + 1;
  }
}

bool QueueHistory::allows(const Contents& found) const {
  return gave_up() || std::ranges::binary_search(allowed_, found);
}

std::string QueueHistory::objection(const Contents& found, const MayBeTorn&) const {
  if (allows(found)) return {};
  return "the queue holds " + show_queue(found, states_.rules().producers) +
         "; allowed: " + show_all(allowed_, states_.rules().producers);
}

std::string QueueHistory::objection_to_payloads(const Contents& found) const {
  const auto producers = static_cast<std::ptrdiff_t>(states_.rules().producers);
  const bool allowed = gave_up() || std::ranges::any_of(allowed_, [&](const Contents& each) {
                         return std::equal(each.begin() + producers, each.end(),
                                           found.begin() + producers, found.end());
                       });
  return allowed ? std::string()
                 : "the queue holds " + show_queue(found, states_.rules().producers) +
                       "; allowed: " + show_all(allowed_, states_.rules().producers);
}

std::string show_queue(const Contents& contents, unsigned producers) {
  std::string text = "[";
  for (std::size_t i = producers; i < contents.size(); ++i)
    text += (i == producers ? "" : ", ") +
            (contents[i] == bad_stamp ? "a torn payload" : std::to_string(contents[i]));
  text += "]";
  bool first = true;
  for (unsigned producer = 0; producer < std::min<std::size_t>(producers, contents.size());
       ++producer) {
    if (contents[producer] == 0) continue;
    text += (first ? " and last push " : ", ") + std::to_string(contents[producer]) +
            " of producer " + std::to_string(producer);
    first = false;
  }
  return text;
}

}  // namespace perdure::crash
