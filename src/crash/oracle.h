// The questions that a run and the states after a power cut must answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

namespace perdure::crash {

enum class Oracle : std::uint8_t {
  creation,         ///< an index can be made
  hooks,            ///< all that the run stored was seen
  answers,          ///< the run's operations return what some order of them allows
  live,             ///< the instance after its run, without a power cut
  heap,             ///< its blocks, then
  progress,         ///< of a lock-free structure, although one thread has stopped for ever
  time_out,         ///< run and recovery end
  recovery,         ///< the pool can be opened again
  linearizability,  ///< every returned operation is there, those in flight are there or not
  invariants,       ///< the index's own check
  continued,        ///< operations, a shutdown and a start after the recovery
};

/// What is known of an oracle besides its question.
struct OracleInfo {
  Oracle oracle;
  const char* name;
  bool is_of_run = false;  ///< it asks the run, which no power cut has ended
  bool is_of_few = false;  ///< it is asked of deep states only
};
inline constexpr std::array oracles{
    OracleInfo{Oracle::creation, "creation"},
    OracleInfo{Oracle::hooks, "completeness of the hooks", true},
    OracleInfo{Oracle::answers, "answers of the run itself", true},
    OracleInfo{Oracle::live, "the live instance", true},
    OracleInfo{Oracle::heap, "the heap of the run itself", true},
    OracleInfo{Oracle::progress, "progress", true},
    OracleInfo{Oracle::time_out, "time-out"},
    OracleInfo{Oracle::recovery, "recovery"},
    OracleInfo{Oracle::linearizability, "durable linearizability"},
    OracleInfo{Oracle::invariants, "invariants"},
    OracleInfo{Oracle::continued, "continued workload", false, true},
};
static_assert(oracles.size() == static_cast<std::size_t>(Oracle::continued) + 1 && [] {
  for (std::size_t i = 0; i < oracles.size(); ++i)
    if (oracles[i].oracle != static_cast<Oracle>(i)) return false;
  return true;
}());

[[nodiscard]] inline const OracleInfo& info_of(Oracle oracle) noexcept {
  return oracles[static_cast<std::size_t>(oracle)];
}
[[nodiscard]] inline const char* name_of(Oracle oracle) noexcept { return info_of(oracle).name; }

inline std::ostream& operator<<(std::ostream& out, Oracle oracle) { return out << name_of(oracle); }

}  // namespace perdure::crash
