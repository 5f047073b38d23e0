// Reports: what the explorer found, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "crash/case.h"
#include "crash/explanation.h"
#include "crash/names.h"
#include "crash/places.h"

namespace perdure::crash {

using Json = nlohmann::ordered_json;

/// A counterexample as a person reads it: operations, the cut, the stores that were lost and those
/// that were not, what came after, the verdict, and the explanation.
[[nodiscard]] std::string tell(const Case& what, const Verdict& verdict, Places& places,
                               const Explanation& explanation);

/// The run event by event up to the cut, as `--replay` shows it.
[[nodiscard]] std::string tell_steps(const Case& what, const Verdict& verdict, Places& places);

/// Operations that were called before the cut, creation and preload among them.
[[nodiscard]] std::size_t called_operations(const Verdict& verdict);

[[nodiscard]] Json json_of(const Coverage& coverage);

// Replay files: a case and the cut of its violation.

inline constexpr unsigned replay_version = 7;

struct Replay {
  Case what;
  std::uint32_t event = 0;
  std::vector<LineState> lines;
  std::uint64_t trace_digest = 0;
};

[[nodiscard]] Json write_replay(const Case& what, const Verdict& verdict);
/// Errors: bad_input, naming the field; not_found (no such index); newer.
[[nodiscard]] Result<Replay> read_replay(const std::string& text, const std::string& where);

}  // namespace perdure::crash
