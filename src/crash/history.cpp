#include "crash/history.h"

#include <algorithm>

namespace perdure::crash {
namespace {

/// The keys a scan has an answer about: from its first up to its last found, or to the end.
std::pair<std::uint16_t, std::uint16_t> reach(const Operation& operation, const Answer& answer,
                                              std::uint16_t keys) {
  const bool to_the_end = answer.found.size() < operation.count;
  const std::uint16_t end =
      to_the_end ? keys : static_cast<std::uint16_t>(answer.found.back().key + 1);
  return {operation.key, end};
}

}  // namespace

History::History(const std::vector<Operation>& operations, const std::vector<Answer>& answers,
                 std::uint16_t keys, Show show)
    : operations_(operations),
      answers_(answers),
      show_(std::move(show)),
      keys_(keys),
      lowest_(keys) {
  for (std::uint16_t key = 0; key < keys; ++key) settle(key);
}

std::string History::name(std::uint16_t key) const {
  return show_ ? "key " + show_(key) : "key number " + std::to_string(key);
}

std::string History::values_of(std::uint16_t key) const {
  std::string text;
  for (const std::uint64_t value : keys_[key].allowed)
    text += (text.empty() ? "" : " or ") +
            (value == absent ? std::string("absent") : "stamp " + std::to_string(value));
  return text;
}

std::uint64_t History::scanned(const Answer& answer, std::uint16_t key) const {
  const auto at = std::ranges::lower_bound(answer.found, key, {}, &Answer::Found::key);
  return at != answer.found.end() && at->key == key ? at->stamp : absent;
}

// What the operation makes of `value`, if it can have given its answer there.
bool History::effect(std::uint32_t operation, std::uint16_t key, std::uint64_t& value) const {
  const Operation& what = operations_[operation];
  const Answer& answer = answers_[operation];
  const bool present = value != absent;
  const Outcome outcome = answer.returned ? answer.outcome : Outcome::ok;
  const bool ok = outcome == Outcome::ok;
  if (outcome == Outcome::out_of_space) return true;
  switch (what.action) {
    case Action::create:
      return true;
    case Action::insert:
      if (ok == present || (!ok && outcome != Outcome::exists)) return false;
      if (ok) value = what.stamp;
      return true;
    case Action::upsert:
      if (ok) value = what.stamp;
      return ok;
    case Action::update:
      if (ok != present || (!ok && outcome != Outcome::not_found)) return false;
      if (ok) value = what.stamp;
      return true;
    case Action::remove:
      if (ok != present || (!ok && outcome != Outcome::not_found)) return false;
      value = absent;
      return true;
    case Action::lookup:
      return ok ? value == answer.stamp : !present && outcome == Outcome::not_found;
    case Action::scan:
      return value == scanned(answer, key);
    case Action::push:
    case Action::pop:
      return false;  // of queues: QueueHistory
    case Action::load:
      if (outcome == Outcome::invalid) return true;
      if (present) return false;
      value = what.stamp + key;
      return true;
  }
  return false;
}

void History::call(std::uint32_t operation) {
  open_.push_back(operation);
  const Operation& what = operations_[operation];
  if (what.action == Action::create) return;
  if (what.action == Action::load) {
    for (std::uint16_t key = 0; key < what.count; ++key) open_on(key, operation);
    return;
  }
  if (what.action != Action::scan) return open_on(what.key, operation);
  if (!answers_[operation].returned) return;
  const auto [begin, end] = reach(what, answers_[operation], keys());
  for (std::uint16_t key = begin; key < end; ++key) open_on(key, operation);
}

std::string History::ret(std::uint32_t operation) {
  std::erase(open_, operation);
  const Operation& what = operations_[operation];
  const Answer& answer = answers_[operation];
  if (!answer.wrong.empty()) return answer.wrong;
  if (what.action == Action::create) return {};
  if (what.action == Action::load) {
    for (std::uint16_t key = 0; key < what.count; ++key)
      if (!close_on(key, operation)) return "bulk load of " + name(key) + ", which was there";
    return {};
  }
  if (what.action != Action::scan) {
    if (close_on(what.key, operation)) return {};
    return std::string(name_of(what.action)) + " of " + name(what.key) + " came to " +
           name_of(answer.outcome) +
           (answer.outcome == Outcome::ok && what.action == Action::lookup
                ? " with stamp " + std::to_string(answer.stamp)
                : "") +
           ", which no order of the operations explains: the key was " + values_of(what.key);
  }
  const auto [begin, end] = reach(what, answer, keys());
  for (std::uint16_t key = begin; key < end; ++key)
    if (!close_on(key, operation))
      return "scan " +
             std::string(scanned(answer, key) == absent ? "missed"
                                                        : "returned the wrong value of") +
             " " + name(key) + ", which no order of the operations explains: the key was " +
             values_of(key);
  return {};
}

void History::cut() {
  open_.clear();
  for (std::uint16_t key = 0; key < keys(); ++key) {
    Key& of = keys_[key];
    if (of.open.empty()) continue;
    of.open.clear();
    of.states.clear();
    for (const std::uint64_t value : of.allowed) of.states.push_back({value, {}});
    settle(key);
  }
}

bool History::is_its_turn(const Key& of, std::uint32_t operation,
                          const std::vector<std::uint32_t>& done) const {
  const Operation& what = operations_[operation];
  if (what.batch == 0 || what.action == Action::lookup) return true;
  return std::ranges::all_of(of.open, [&](std::uint32_t other) {
    return other >= operation || operations_[other].batch != what.batch ||
           std::ranges::binary_search(done, other);
  });
}

void History::open_on(std::uint16_t key, std::uint32_t operation) {
  Key& of = keys_[key];
  of.open.push_back(operation);
  std::vector<State> frontier = of.states;
  while (!frontier.empty()) {
    const State state = std::move(frontier.back());
    frontier.pop_back();
    for (const std::uint32_t candidate : of.open) {
      if (std::ranges::binary_search(state.done, candidate)) continue;
      if (!is_its_turn(of, candidate, state.done)) continue;
      State next = state;
      if (!effect(candidate, key, next.value)) continue;
      next.done.insert(std::ranges::upper_bound(next.done, candidate), candidate);
      const auto at = std::ranges::lower_bound(of.states, next);
      if (at != of.states.end() && *at == next) continue;
      of.states.insert(at, next);
      frontier.push_back(std::move(next));
    }
  }
  settle(key);
}

bool History::close_on(std::uint16_t key, std::uint32_t operation) {
  Key& of = keys_[key];
  std::vector<State> kept;
  for (State& state : of.states) {
    const auto done = std::ranges::lower_bound(state.done, operation);
    if (done == state.done.end() || *done != operation) continue;
    state.done.erase(done);
    kept.push_back(std::move(state));
  }
  std::erase(of.open, operation);
  if (kept.empty()) return false;
  std::ranges::sort(kept);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  of.states = std::move(kept);
  settle(key);
  return true;
}

bool History::is_refusal(std::uint32_t operation) const {
  const Answer& answer = answers_[operation];
  return answer.returned &&
         (answer.outcome == Outcome::exists || answer.outcome == Outcome::not_found ||
          answer.outcome == Outcome::out_of_space);
}

// A power cut ends an operation before it answers, so it may have done what it came too late for in
// the run: a removal that is logged, say, while another thread's is still to come; or a write that
// is logged, for whose index entry there is room only once recovery has swept.
void History::add_unanswered(Key& of, std::uint16_t key, const State& state) const {
  for (const std::uint32_t open : of.open) {
    if (std::ranges::binary_search(state.done, open)) continue;
    // Beside another thread's those before it may have had nothing to do, and are not in `done`.
    const std::uint16_t batch = operations_[open].batch;
    const bool alone = std::ranges::all_of(
        of.open, [&](std::uint32_t other) { return operations_[other].batch == batch; });
    if (alone && !is_its_turn(of, open, state.done)) continue;
    State next = state;
    if (!take_effect_unanswered(open, key, next.value)) continue;
    of.allowed.push_back(next.value);
    next.done.insert(std::ranges::upper_bound(next.done, open), open);
    add_unanswered(of, key, next);
  }
}

bool History::take_effect_unanswered(std::uint32_t operation, std::uint16_t key,
                                     std::uint64_t& value) const {
  if (!is_refusal(operation)) return effect(operation, key, value);
  const Operation& what = operations_[operation];
  const bool present = value != absent;
  const bool writes = what.action == Action::insert || what.action == Action::upsert ||
                      what.action == Action::update;
  if (!writes && what.action != Action::remove) return false;
  if (what.action != Action::upsert && present == (what.action == Action::insert)) return false;
  value = writes ? what.stamp : absent;
  return true;
}

void History::settle(std::uint16_t key) {
  Key& of = keys_[key];
  const auto part = [&] {
    std::uint64_t sum = key + 1;
    for (const std::uint64_t value : of.allowed) sum = mix64(sum ^ value) + 1;
    return mix64(sum);
  };
  if (!of.allowed.empty()) digest_ ^= part();
  of.allowed.clear();
  for (const State& state : of.states) of.allowed.push_back(state.value);
  if (std::ranges::any_of(of.open, [&](std::uint32_t open) { return is_refusal(open); }))
    for (const State& state : of.states) add_unanswered(of, key, state);
  std::ranges::sort(of.allowed);
  of.allowed.erase(std::unique(of.allowed.begin(), of.allowed.end()), of.allowed.end());
  lowest_[key] = of.allowed.front();
  digest_ ^= part();
}

std::span<const std::uint64_t> History::allowed(std::uint16_t key) const {
  return keys_[key].allowed;
}

bool History::allows(const Contents& found) const {
  for (std::uint16_t key = 0; key < keys(); ++key)
    if (!allows(key, found[key])) return false;
  return true;
}

std::string History::objection(const Contents& found, const MayBeTorn& may_be_torn) const {
  for (std::uint16_t key = 0; key < keys(); ++key)
    if (!allows(key, found[key]) && !(found[key] == bad_stamp && may_be_torn(key)))
      return told(key, found[key]);
  return {};
}

std::string History::told(std::uint16_t key, std::uint64_t stamp) const {
  std::string text = name(key) + " ";
  text += stamp == absent      ? "is absent"
          : stamp == bad_stamp ? "holds a torn value"
                               : "holds stamp " + std::to_string(stamp);
  text += "; allowed:";
  for (const std::uint64_t one : allowed(key))
    text += one == absent ? " absent" : " " + std::to_string(one);
  return text;
}

bool History::allows_above(std::uint16_t key, std::uint64_t stamp) const {
  const auto& allowed = keys_[key].allowed;
  return allowed.size() > 1 && std::ranges::binary_search(allowed, stamp);
}

}  // namespace perdure::crash
