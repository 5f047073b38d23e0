// Smells: work that makes nothing durable, and stores that nothing makes durable.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "crash/places.h"
#include "crash/search.h"

namespace perdure::crash {

struct Smell {
  enum class Kind : std::uint8_t { clean_line_flushed, empty_fence, never_flushed };
  Kind kind;
  Place place;
  Action during;  ///< the operation it happened in
  std::uint64_t times;
};
[[nodiscard]] const char* name_of(Smell::Kind kind) noexcept;

/// Smells of a few runs of the plan, most frequent first.
[[nodiscard]] std::vector<Smell> find_smells(const Plan& plan, Workspace& workspace,
                                             Places& places);
[[nodiscard]] std::string tell(const std::vector<Smell>& smells);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Smell>& smells);

}  // namespace perdure::crash
