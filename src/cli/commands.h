// The sub-commands of perdure-native. Each takes its arguments and returns an exit code.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/result.h"

namespace perdure::cli {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_violation = 5;
inline constexpr int exit_interrupted = 130;

using Arguments = std::vector<std::string>;

int bench_command(const Arguments& arguments);
/// perdure-sim only; perdure-native says so.
int crash_command(const Arguments& arguments);
/// Its flags, as FlagTable::json has them.
[[nodiscard]] nlohmann::ordered_json crash_flags();
/// perdure-native only; perdure-sim says so, but for `engine replay`.
int serve_command(const Arguments& arguments);
int engine_command(const Arguments& arguments);
/// `engine replay`, of both programs.
int replay_command(const Arguments& arguments);
int list_command(const Arguments& arguments);
int describe_command(const Arguments& arguments);
int probe_command(const Arguments& arguments);
int environment_command(const Arguments& arguments);
int version_command(const Arguments& arguments);

/// Prints "perdure: where: what; remedy" on stderr, always one line, and returns the exit code.
int report(const Error& error);

/// From now on memory, threads and files that the system refuses end the process with a line and
/// `exit_usage`, any other exception that nothing catches with a line and `exit_failed`. What was
/// half made is removed.
void explain_sudden_ends() noexcept;

/// Indented, with a newline. Keys and paths in it may be any bytes; what is no UTF-8 is replaced.
std::string json_text(const nlohmann::ordered_json& json);

/// From now on only `print_result` reaches stdout: what anybody else writes there, a PiBench
/// wrapper or a library that an index uses, goes to stderr, also when it writes to descriptor 1
/// itself.
void keep_stdout_for_results();

/// Writes the result to stdout. A full disk must not look like success: returns exit_failed then.
int print_result(const std::string& text);

}  // namespace perdure::cli
