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
  time_out,         ///< run and recovery end
  recovery,         ///< the pool can be opened again
  linearizability,  ///< every returned operation is there, those in flight are there or not
  invariants,       ///< the index's own check
  continued,        ///< operations, a shutdown and a start after the recovery
};

[[nodiscard]] inline const char* name_of(Oracle oracle) noexcept {
  static constexpr std::array names{
      "creation",          "completeness of the hooks",  "answers of the run itself",
      "the live instance", "the heap of the run itself", "time-out",
      "recovery",          "durable linearizability",    "invariants",
      "continued workload"};
  return names[static_cast<std::size_t>(oracle)];
}

inline std::ostream& operator<<(std::ostream& out, Oracle oracle) { return out << name_of(oracle); }

}  // namespace perdure::crash
