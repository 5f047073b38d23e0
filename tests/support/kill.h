// Kill rounds: a child process works on an index and is SIGKILLed; the parent recovers and checks.
//
// The child logs what it does in a file that both map, which outlives it:
//   KillLog   the round's settings, the child's progress
//   KillEntry one operation: written before it starts (`intended`), completed after it returned
//             (`acknowledged`). Each thread fills its own entries in order and works on its own
//             keys.
// So after the kill, per thread: every acknowledged operation must be there with the outcome the
// child saw, and the last one, if only intended, must be there whole or not at all.
//
// The child is this same program started again with `--kill-worker`, so a suite only has to call
// `run_kill_worker` first thing in main.
#pragma once

#include <atomic>
#include <cstdint>

#include "support/bed.h"

namespace perdure::testing {

inline constexpr unsigned kill_threads = 4;
/// Per thread and round: more than a fast index gets through before the kill.
inline constexpr std::uint32_t kill_entries = 1U << 17;

enum class KillStep : std::uint8_t { insert, upsert, update, remove };
enum class EntryState : std::uint8_t { unused, intended, acknowledged };
enum class ChildState : std::uint32_t { starting, recovering, working, failed };

struct KillEntry {
  std::uint64_t stamp;
  std::uint32_t key;
  KillStep step;
  Outcome outcome;
  std::atomic<EntryState> state;
};
static_assert(sizeof(KillEntry) == 16);

struct KillLog {
  std::atomic<ChildState> child;
  std::uint32_t threads;
  std::uint64_t seed;
  std::uint64_t round;
  std::uint32_t keys;
  std::uint32_t growing;   ///< share of inserts among inserts and removes, per cent
  std::uint32_t replaces;  ///< updates and upserts are offered
  char problem[256];       ///< why the child failed
  KillEntry entries[kill_threads][kill_entries];
};

struct KillPlan {
  std::uint64_t seed = 1;
  unsigned kills = 50;
  std::uint32_t keys = 1200;
  bool small_nodes = true;
  std::uint64_t pool_bytes = 48ULL << 20;
};

struct KillReport {
  unsigned kills = 0;
  unsigned kills_in_recovery = 0;
  unsigned kills_in_flight = 0;  ///< rounds in which some operation was neither done nor not begun
  std::uint64_t acknowledged = 0;
  std::uint64_t leaked_blocks_freed = 0;
};

/// Runs the rounds on one pool. Error: an acknowledged operation is gone, a torn one is there, a
/// block leaked, an invariant is broken, or the index does not go on working.
template <class Keys>
[[nodiscard]] Result<KillReport> run_kill_rounds(const Target& target, const KillPlan& plan);

/// When the arguments say `--kill-worker`: does the child's work and never returns.
void run_kill_worker(int argc, char** argv);

}  // namespace perdure::testing
