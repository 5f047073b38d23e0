#include "crash/model.h"

#include <algorithm>

#include "crash/history.h"
#include "crash/recorded.h"

namespace perdure::crash {
namespace {

std::string show_stamp(std::uint64_t stamp) {
  return stamp == absent      ? "absent"
         : stamp == bad_stamp ? "a torn value"
                              : "value " + std::to_string(stamp);
}

Outcome right_outcome(Action action, bool present) {
  if (action == Action::insert) return present ? Outcome::exists : Outcome::ok;
  if (action == Action::upsert) return Outcome::ok;
  return present ? Outcome::ok : Outcome::not_found;
}

}  // namespace

std::string MapModel::take(const Operation& operation, const Answer& answer) {
  if (!answer.wrong.empty() || answer.outcome == Outcome::out_of_space) return answer.wrong;
  std::uint64_t& held = stamps_[operation.key];
  const Outcome right = right_outcome(operation.action, held != absent);
  const auto who = [&] {
    return std::string(name_of(operation.action)) + " of key " + vocabulary_.show(operation.key);
  };
  if (answer.outcome != right)
    return who() + " came to " + perdure::name_of(answer.outcome) + ", not " +
           perdure::name_of(right) + ": the key was " + show_stamp(held);
  if (operation.action == Action::lookup && held != absent && answer.stamp != held)
    return who() + " returned " + show_stamp(answer.stamp) + ", not " + show_stamp(held);
  if (right != Outcome::ok || operation.action == Action::lookup) return {};
  held = operation.action == Action::remove ? absent : operation.stamp;
  return {};
}

std::string MapModel::compare(const Contents& found) const {
  for (std::uint16_t key = 0; key < stamps_.size(); ++key)
    if (found[key] != stamps_[key])
      return "key " + vocabulary_.show(key) + " is " + show_stamp(found[key]) + ", not " +
             show_stamp(stamps_[key]);
  return {};
}

Operation MapModel::draw(Rng& rng, std::uint64_t number) const {
  Operation operation;
  operation.action = static_cast<Action>(1 + rng.below(5));
  if (!replaces_) operation.action = without_replacing(operation.action);
  operation.key = static_cast<std::uint16_t>(rng.below(vocabulary_.keys()));
  operation.stamp = (std::uint64_t{1} << 40) + number;
  return operation;
}

Operation QueueModel::draw(Rng& rng, std::uint64_t number) const {
  constexpr std::size_t few = 16;
  constexpr std::uint64_t first_stamp = std::uint64_t{1} << 30;  // above those of programs
  Operation operation;
  const bool pushes = states_.most_payloads() < few && rng.below(2) == 0;
  operation.action = pushes ? Action::push : Action::pop;
  operation.thread = static_cast<std::uint8_t>(rng.below(states_.rules().producers));
  operation.stamp = first_stamp + number;
  return operation;
}

std::string QueueModel::take(const Operation& operation, const Answer& answer) {
  if (!answer.wrong.empty()) return answer.wrong;
  const std::string before = show();
  states_.call(operation, answer);
  if (states_.ret(operation, answer)) return {};
  std::string text = name_of(operation.action);
  text += " came to " + std::string(perdure::name_of(answer.outcome));
  if (operation.action == Action::pop && answer.outcome == Outcome::ok)
    text += answer.stamp == bad_stamp ? " with a torn payload"
                                      : " with payload " + std::to_string(answer.stamp);
  return text + ": the queue held " + before;
}

std::string QueueModel::compare(const Contents& found) const {
  Contents asked = found;
  if (!states_.rules().detectable) std::fill_n(asked.begin(), states_.rules().producers, 0);
  const std::vector<Contents> right = states_.contents();
  if (std::ranges::binary_search(right, asked)) return {};
  return "the queue holds " + show_queue(found, states_.rules().producers) + ", not " + show();
}

std::string QueueModel::show() const {
  constexpr std::size_t most = 4;
  const std::vector<Contents> all = states_.contents();
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i)
    text += (i == 0 ? "" : " or ") + show_queue(all[i], states_.rules().producers);
  return text + (all.size() > most ? " or ..." : "");
}

QueueRules rules_of(const Subject& subject, const Vocabulary& vocabulary, std::uint64_t capacity) {
  return {vocabulary.threads(), capacity, subject.queue->detectable};
}

std::unique_ptr<Model> model_of(const Subject& subject, const Vocabulary& vocabulary,
                                const Instance& instance, Contents found) {
  if (!subject.is_queue())
    return std::make_unique<MapModel>(vocabulary, std::move(found), subject.replaces());
  QueueRules rules = rules_of(subject, vocabulary, instance.capacity());
  rules.detectable = false;  // the numbers of producers are not asked
  return std::make_unique<QueueModel>(QueueStates(rules));
}

std::unique_ptr<Specification> specify(const Subject& subject, const Vocabulary& vocabulary,
                                       const Recorded& run) {
  if (subject.is_queue())
    return std::make_unique<QueueHistory>(run.operations, run.answers,
                                          rules_of(subject, vocabulary, run.capacity));
  return std::make_unique<History>(
      run.operations, run.answers, vocabulary.keys(),
      [&vocabulary](std::uint16_t key) { return vocabulary.show(key); });
}

}  // namespace perdure::crash
