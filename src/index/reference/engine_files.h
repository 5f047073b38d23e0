// The files that each on-disk engine writes into its directory: no other is ever removed from it.
#pragma once

#include <string>
#include <string_view>

namespace perdure {

/// The mark of ownership, which is the lock as well. It says which engine's the directory is:
///   perdure on-disk index, layout 1, engine NAME
/// Only the run that made the directory writes it. One of an earlier version is empty, and proves
/// nothing: it serves as a lock, and keeps the directory from being removed.
inline constexpr const char* engine_mark = "perdure.lock";

[[nodiscard]] std::string engine_mark_text(std::string_view engine);
/// The engine that a mark names; empty where it names none.
[[nodiscard]] std::string engine_of_mark(std::string_view text);

/// True when `name`, in `folder` of the directory ("" for the directory itself), is that of a file
/// which the engine writes.
[[nodiscard]] bool is_engine_file(std::string_view engine, std::string_view folder,
                                  std::string_view name);
/// True for a folder of the directory that the engine makes.
[[nodiscard]] bool is_engine_folder(std::string_view engine, std::string_view name);

}  // namespace perdure
