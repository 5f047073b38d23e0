#include "crash/map_model.h"

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

std::string MapModel::compare(std::span<const std::uint64_t> stamps) const {
  for (std::uint16_t key = 0; key < stamps_.size(); ++key)
    if (stamps[key] != stamps_[key])
      return "key " + vocabulary_.show(key) + " is " + show_stamp(stamps[key]) + ", not " +
             show_stamp(stamps_[key]);
  return {};
}

Operation draw_operation(Rng& rng, std::uint16_t keys, std::uint64_t number) {
  Operation operation;
  operation.action = static_cast<Action>(1 + rng.below(5));
  operation.key = static_cast<std::uint16_t>(rng.below(keys));
  operation.stamp = (std::uint64_t{1} << 40) + number;
  return operation;
}

}  // namespace perdure::crash
