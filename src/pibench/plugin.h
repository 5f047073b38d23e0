// What a PiBench wrapper is created with, and what it can do against the rules (U1 to U3 in
// plugin_index.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace perdure {

/// What a wrapper is created with.
struct PluginOptions {
  std::string library;           ///< path of the shared object
  std::string pool_path;         ///< must not exist yet, or be an empty directory, which some
                                 ///< wrappers want; empty: the wrapper's default
  std::uint64_t pool_bytes = 0;  ///< 0: the wrapper's default
  unsigned threads = 1;
  std::size_t key_bytes = 8;    ///< byte strings: the one length of all keys, at most 128
  std::size_t value_bytes = 8;  ///< byte strings: the one length of all values, at most 1400
};

inline constexpr std::size_t max_plugin_key_bytes = 128;
inline constexpr std::size_t max_plugin_value_bytes = 1400;

/// Counts of what the wrapper did against the rules.
struct PluginViolations {
  std::uint64_t overruns = 0;          ///< U1
  std::uint64_t exceptions = 0;        ///< U2
  std::uint64_t impossible_scans = 0;  ///< U3
  /// Not against the rules: scans whose records were not handed out, so that nothing can be
  /// checked.
  std::uint64_t scans_without_records = 0;
  /// Nor is this: scans that said 0 and handed out nothing. All of them: it cannot scan.
  std::uint64_t scans_of_nothing = 0;
};

}  // namespace perdure
