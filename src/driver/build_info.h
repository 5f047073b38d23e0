// What this program was built from, for run records.
#pragma once

namespace perdure::driver {

struct BuildInfo {
  const char* version;   ///< of the project
  const char* commit;    ///< git commit, or "unknown" outside a repository
  bool dirty;            ///< the tree held changes that the commit lacks
  const char* compiler;  ///< "GNU 12.2.0"
  const char* flags;
  const char* type;  ///< CMake build type
};

[[nodiscard]] const BuildInfo& build_info() noexcept;

}  // namespace perdure::driver
