// What `probe` prints for people: a table per probe, and the grids of I4 and I5.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace perdure::cli {

/// `document`: form perdure-probe/1.
[[nodiscard]] std::string probe_table_of(const nlohmann::ordered_json& document);

}  // namespace perdure::cli
