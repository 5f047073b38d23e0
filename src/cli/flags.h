// Flags: a sub-command's CLI11 parser, with every complaint in the project's one-line form.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"

namespace perdure::cli {

enum class Parsed { ready, help_printed };

/// Parses `arguments` (without the program and sub-command) with `app`, which takes values as text.
/// Prints the help on stdout when asked. Errors: usage, naming the flag.
[[nodiscard]] Result<Parsed> parse(CLI::App& app, const std::vector<std::string>& arguments);

/// A complaint about the command line.
[[nodiscard]] inline Error usage(std::string what, std::string where, std::string remedy) {
  return {ErrorCode::usage, std::move(what), std::move(where), std::move(remedy)};
}

/// "where: what; remedy" for a value that is none of `choices`.
[[nodiscard]] Error not_one_of(std::string_view value, std::string_view where,
                               std::span<const std::string> choices);

}  // namespace perdure::cli
