// Session: one program under one schedule, run and explored; and many of them within a budget.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crash/explorer.h"

namespace perdure::crash {

/// Everything that makes a run: the same case gives the same trace and verdict on every machine.
struct Case {
  Subject subject;
  Program program;
  Schedule schedule;
  Domain domain = Domain::adr;
  Bounds bounds;
  Mutation mutation;
  bool transactions = false;  ///< the program finds hardware transactions
  /// Not 0: the program is cut once, in a state that this draws, recovers, and goes on with the
  /// operations that had not begun; what is explored is all from the recovery on.
  std::uint64_t cut = 0;
  /// Points before the threads begin are passed over: another schedule has had them.
  bool only_threads = false;
};

struct Verdict {
  std::optional<Violation> violation;
  Coverage coverage;
  std::uint64_t trace_digest = 0;
  Steps steps;
  std::set<Site> sites;
  double exploring_seconds = 0;  ///< without recording the run
  std::uint64_t work = 0;        ///< steps of all that was run for it
  Recorded run;
};

/// Memory that cases of one pool size share.
class Bench {
 public:
  explicit Bench(std::size_t pool_bytes, HeapKind heap = HeapKind::slab);
  /// Errors: of making a pool with libpmemobj's heap.
  [[nodiscard]] const Result<void>& ready() const noexcept { return ready_; }
  [[nodiscard]] const Memory& live() const noexcept { return live_; }
  [[nodiscard]] Image& image() noexcept { return image_; }
  [[nodiscard]] Watch& watch() noexcept { return watch_; }
  /// What was in the pool's memory before: whoever relies on zeros must write and flush them.
  /// `small`: numbers that look like counts and versions.
  [[nodiscard]] std::span<const std::byte> garbage(bool small);

 private:
  Memory live_;
  Image image_;
  Watch watch_;
  Result<void> ready_;
  std::array<std::vector<std::byte>, 2> garbage_;  ///< made when first asked for
};

/// One for each size of pool, made when it is first asked for.
class Benches {
 public:
  explicit Benches(HeapKind heap) : heap_(heap) {}
  [[nodiscard]] Bench& of(std::size_t pool_bytes) {
    return benches_.try_emplace(pool_bytes, pool_bytes, heap_).first->second;
  }

 private:
  HeapKind heap_;
  std::map<std::size_t, Bench> benches_;
};

using Stop = std::function<bool()>;  ///< true when time is up

/// Runs the program without a cut and records it. `hung` and wrong answers are found by exploring.
[[nodiscard]] Verdict record(const Case& what, Bench& bench);
/// record + explore.
[[nodiscard]] Verdict explore(const Case& what, Bench& bench, const Stop& stop);
/// record + one state.
[[nodiscard]] Verdict try_state(const Case& what, Bench& bench, std::uint32_t event,
                                const std::vector<LineState>& lines);

/// What programs are made for.
enum class Shape : std::uint8_t {
  mixed,    ///< styles that change from stretch to stretch
  growing,  ///< they begin shortly before an operation that does more than any before it
  crowded,  ///< all threads insert at the same place
};

/// What the caller has chosen, and no way to look changes (crash/ways.h).
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
  bool reuse = false;         ///< all are, and use blocks again (else one in four, a short one)
  unsigned cuts = 0;          ///< of each program, which goes on behind it; 0: it is not cut
  bool transactions = false;  ///< elided paths, and some threads on the software ones
  Bounds bounds;
  Mutation mutation;
};

/// Case::cut of a program's cut number `which`, 1 or more. Behind every other one retired blocks
/// are not waited for, which would end a recovery that goes on beside the operations.
[[nodiscard]] inline std::uint64_t draw_cut_number(Rng& rng, unsigned which) {
  return (rng() >> 2 << 1 | 2) + which % 2;
}

/// The program that a plan makes of one seed.
[[nodiscard]] ProgramPlan program_plan(const Plan& plan, std::uint64_t seed);

struct Summary {
  Coverage coverage;
  std::uint64_t programs = 0;
  std::uint64_t runs = 0;
  std::uint64_t events = 0;
  std::uint64_t trace_digest = 0;  ///< of all runs
  double seconds = 0;
  double exploring_seconds = 0;
  bool time_up = false;
  std::optional<Case> failed;
  std::optional<Violation> violation;
  std::set<Site> sites;
};

using Progress = std::function<void(const Summary&)>;  ///< told now and then

/// Programs from the seed on, each under several schedules, until time or states are spent or a
/// violation is found.
[[nodiscard]] Summary explore_many(const Plan& plan, Bench& bench, const Progress& progress);
/// The same in all ways to look (crash/ways.h), each of which has a share of the budget, begin with
/// the plan's own.
[[nodiscard]] Summary explore_in_all_ways(const Plan& plan, Benches& benches,
                                          const Progress& progress);

}  // namespace perdure::crash
