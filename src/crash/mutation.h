// Mutations: every flush and fence that a run meets is left out, moved or aimed elsewhere in turn.
// A good explorer kills each of them, unless the change makes no difference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crash/places.h"
#include "crash/search.h"

namespace perdure::crash {

[[nodiscard]] const char* name_of(Mutation::Kind kind) noexcept;

struct MutantResult {
  Mutation mutation;
  bool is_fence = false;
  Place place;
  bool killed = false;
  std::string killed_by;  ///< an oracle, and what it said where no mutation was needed
  std::uint64_t states = 0;
  std::string equivalent{};  ///< why it changes nothing, if it provably does not
};
/// One line: verdict, kind, site, reason.
[[nodiscard]] std::string show(const MutantResult& result);

/// All mutants of the plan's index at the sites its runs meet; each is explored as planned until it
/// is killed. Sites are told apart by source line and kind where lines are known. `part`: only of
/// places whose text (file:line in function) holds it.
[[nodiscard]] std::vector<MutantResult> mutate(
    const Plan& plan, Workspace& workspace, Places& places, const std::string& part,
    const std::function<void(const MutantResult&)>& told);

}  // namespace perdure::crash
