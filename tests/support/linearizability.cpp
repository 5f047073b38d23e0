#include "support/linearizability.h"

#include <algorithm>
#include <optional>
#include <set>

namespace perdure::testing {
namespace {

constexpr std::uint64_t no_value = ~std::uint64_t{0};

/// The map's value, and the open operations that have taken effect (sorted indexes).
struct State {
  std::uint64_t value = no_value;
  std::vector<std::size_t> done;
  friend auto operator<=>(const State&, const State&) = default;
};

/// The value after `event` took effect on `value`; nothing if it could not have given its answer.
std::optional<std::uint64_t> take_effect(const KeyEvent& event, std::uint64_t value) {
  const bool present = value != no_value;
  const bool ok = event.outcome == Outcome::ok;
  switch (event.operation) {
    case KeyOperation::insert:
      if (ok == present || (!ok && event.outcome != Outcome::exists)) return std::nullopt;
      return ok ? event.stamp : value;
    case KeyOperation::upsert:
      return ok ? std::optional(event.stamp) : std::nullopt;
    case KeyOperation::update:
      if (ok != present || (!ok && event.outcome != Outcome::not_found)) return std::nullopt;
      return ok ? event.stamp : value;
    case KeyOperation::remove:
      if (ok != present || (!ok && event.outcome != Outcome::not_found)) return std::nullopt;
      return ok ? no_value : value;
    case KeyOperation::lookup:
      if (ok ? value != event.stamp : present || event.outcome != Outcome::not_found)
        return std::nullopt;
      return value;
  }
  return std::nullopt;
}

/// Adds every state reachable by letting open operations take effect.
void close_over(std::set<State>& states, const std::vector<KeyEvent>& events,
                const std::vector<std::size_t>& open) {
  std::vector<State> frontier(states.begin(), states.end());
  while (!frontier.empty()) {
    const State state = std::move(frontier.back());
    frontier.pop_back();
    for (const std::size_t i : open) {
      if (std::ranges::binary_search(state.done, i)) continue;
      const auto value = take_effect(events[i], state.value);
      if (!value) continue;
      State next{*value, state.done};
      next.done.insert(std::ranges::upper_bound(next.done, i), i);
      if (states.insert(next).second) frontier.push_back(std::move(next));
    }
  }
}

const char* name_of(KeyOperation operation) {
  static constexpr const char* names[] = {"insert", "upsert", "update", "remove", "lookup"};
  return names[static_cast<std::size_t>(operation)];
}

}  // namespace

Result<void> check_linearizable(const std::vector<KeyEvent>& events) {
  struct Edge {
    std::uint64_t time;
    bool is_return;
    std::size_t event;
  };
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < events.size(); ++i) {
    edges.push_back({events[i].called, false, i});
    edges.push_back({events[i].returned, true, i});
  }
  std::ranges::sort(edges, {}, &Edge::time);
  std::set<State> states{State{}};
  std::vector<std::size_t> open;
  for (const Edge& edge : edges) {
    if (!edge.is_return) {
      open.push_back(edge.event);
      continue;
    }
    close_over(states, events, open);
    std::set<State> kept;
    for (State state : states) {
      const auto done = std::ranges::lower_bound(state.done, edge.event);
      if (done == state.done.end() || *done != edge.event) continue;
      state.done.erase(done);
      kept.insert(std::move(state));
    }
    if (kept.empty()) {
      const KeyEvent& event = events[edge.event];
      return Error{ErrorCode::failed,
                   std::string(name_of(event.operation)) + " of stamp " +
                       std::to_string(event.stamp) + " came to " + perdure::name_of(event.outcome) +
                       ", which no order of the operations explains",
                   "", ""};
    }
    states = std::move(kept);
    std::erase(open, edge.event);
  }
  return {};
}

}  // namespace perdure::testing
