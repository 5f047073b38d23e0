// Search: programs made from seeds, each under several schedules, explored within a budget.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "crash/case.h"

namespace perdure::crash {

/// What programs are made for.
enum class Shape : std::uint8_t {
  mixed,    ///< styles that change from stretch to stretch
  growing,  ///< they begin shortly before an operation that does more than any before it
  crowded,  ///< all threads insert at the same place
};

/// What the caller has chosen; no way changes it (crash/ways.h).
struct Chosen {
  bool threads = false;
  bool keys = false;
  bool preload = false;
  bool operations = false;
  bool pool = false;
  std::vector<std::string> options{};
};

struct Plan {
  Subject subject;
  KeyKind key_kind = KeyKind::integer;
  Domain domain = Domain::adr;
  unsigned threads = 1;
  unsigned operations = 24;
  std::uint16_t keys = 32;
  unsigned preload = 12;
  std::uint64_t seed = 1;
  double seconds = 10;
  std::uint64_t most_states = ~std::uint64_t{0};
  unsigned schedules = 4;     ///< of each kind per program, after the undisturbed one
  unsigned depth = 4;         ///< of PCT schedules, 2 or more: one change point less than this
  unsigned preemptions = 2;   ///< of depth-first schedules
  bool long_programs = true;  ///< half of the programs are
  Shape shape = Shape::mixed;
  Chosen chosen{};
  bool reuse = false;  ///< all are long and reuse blocks (else one in four does, a short one)
  unsigned cuts = 0;   ///< first cuts drawn for each program; 0: it is not cut
  unsigned batch = 1;  ///< operations of one call, at most
  bool transactions = false;  ///< elided paths, and some threads on the software ones
  Bounds bounds;
  Mutation mutation;
};

/// The program that a plan makes of one seed.
[[nodiscard]] ProgramPlan program_plan(const Plan& plan, std::uint64_t seed);

struct Summary {
  Coverage coverage;
  std::uint64_t programs = 0;
  std::uint64_t runs = 0;
  std::uint64_t stops = 0;  ///< of these runs: with a thread that is stopped for ever
  std::uint64_t events = 0;
  std::uint64_t trace_digest = 0;  ///< of all runs
  double seconds = 0;
  double exploring_seconds = 0;
  bool time_up = false;
  std::optional<Case> failed;
  std::optional<Violation> violation;
  std::set<Site> sites;
};

using Progress = std::function<void(const Summary&)>;  ///< called after each run

/// Programs from the seed on, each under several schedules, until time or states are spent or a
/// violation is found.
[[nodiscard]] Summary explore_many(const Plan& plan, Workspace& workspace,
                                   const Progress& progress);
/// The same in all ways (crash/ways.h), beginning with the plan's own. Each has a share of the
/// budget.
[[nodiscard]] Summary explore_in_all_ways(const Plan& plan, Workspaces& workspaces,
                                          const Progress& progress);

}  // namespace perdure::crash
