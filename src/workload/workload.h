// A workload: the description from which every operation of a run follows, given the seed.
//
// Ids. Everything is said in key ids, and keys.h turns an id into a key:
//   [0, records)           loaded before the run
//   records + k*T + t      the k-th key that thread t of T inserts during the run
//   [2^63, 2^64)           never inserted: the keys of lookup_negative
// With a key range R, as the published benchmarks of sets have it, every lookup, insert and remove
// takes an id of [0, R), present or not, of which [0, records) were loaded; "exists" and "not
// found" are answers like any other then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "workload/mix.h"

namespace perdure::workload {

class KeyFile;
class IntegerFile;

/// Which of the inserted keys an operation picks.
struct Distribution {
  enum class Kind : std::uint8_t {
    uniform,
    zipfian,       ///< P(rank r) proportional to r^-theta, exactly; keys in a random rank order
    self_similar,  ///< the first h of the keys get 1-h of the operations, recursively
    latest,        ///< zipfian over recency: the thread's newest insert first, loaded keys last
    sequential,    ///< thread t walks the t-th part of the loaded ids, again and again
  };
  Kind kind = Kind::uniform;
  double theta = 0.99;    ///< zipfian, latest: in (0, 10]
  double h = 0.2;         ///< self_similar: in (0, 0.5]; 0.2 is the 80-20 rule
  bool scattered = true;  ///< zipfian, self_similar: ranks go to ids by a keyed permutation
  friend bool operator==(const Distribution&, const Distribution&) = default;
};
[[nodiscard]] const char* name_of(Distribution::Kind kind) noexcept;

/// How an id becomes a key.
struct Keys {
  enum class Form : std::uint8_t {
    mixed,       ///< integer: a keyed bijective mix of the id (the default)
    golden,      ///< integer: (id + 1) x 11400714819323198393, PiBench's golden-ratio hash: a
                 ///< low-discrepancy sequence and not random, for comparison with published figures
    sequential,  ///< integer: the id itself
    integers,    ///< integer: number `id` of a file
    snowflake,   ///< integer: key sets, see workload/key_set.h
    clustered,
    ipv4,
    kmer,
    prefixed,  ///< bytes: `prefix`, then the mixed id as 20 decimal digits
    random,    ///< bytes: random bytes, any content, of min_bytes..max_bytes
    file,      ///< bytes: line `id` of a file
    uuid,      ///< bytes: key sets
    uuid_binary,
    kmer_text,
    email,
    url,
  };
  Form form = Form::mixed;
  std::string prefix = "user";                ///< prefixed
  std::size_t min_bytes = 16;                 ///< random: 8 ..
  std::size_t max_bytes = 16;                 ///< random: .. 2048
  std::size_t mean_bytes = 0;                 ///< random: 0: every length is as frequent; else
                                              ///< longer ones are ever rarer (geometric)
  std::filesystem::path file;                 ///< file, integers
  std::shared_ptr<const KeyFile> file_lines;  ///< file: filled in by open_key_file()
  std::shared_ptr<const IntegerFile> file_integers;  ///< integers: likewise

  [[nodiscard]] bool from_file() const noexcept {
    return form == Form::file || form == Form::integers;
  }
};
[[nodiscard]] const char* name_of(Keys::Form form) noexcept;
/// True for prefixed and what comes after it: the workload needs an index of byte-string keys.
[[nodiscard]] constexpr bool is_bytes(Keys::Form form) noexcept {
  return form >= Keys::Form::prefixed;
}

/// True for the forms of workload/key_set.h.
[[nodiscard]] constexpr bool is_key_set(Keys::Form form) noexcept {
  return (form >= Keys::Form::snowflake && form <= Keys::Form::kmer) || form >= Keys::Form::uuid;
}

inline constexpr std::uint64_t most_mix_steps = 65536;
inline constexpr std::uint64_t most_batch = 1024;
inline constexpr std::uint64_t longest_think_ns = 1'000'000'000;
inline constexpr std::size_t longest_key_bytes = 2048;
inline constexpr std::size_t longest_value_bytes = 64 * 1024;
/// A byte-string value starts with the 8-byte word that verification decodes.
inline constexpr std::size_t shortest_value_bytes = 8;

/// Records asked of one scan: uniform in [min, max].
struct ScanCount {
  std::uint32_t min = 100;
  std::uint32_t max = 100;
  friend bool operator==(const ScanCount&, const ScanCount&) = default;
};

/// The order in which records are loaded. In a sequential order snowflake ids come in the order of
/// time, and bursts of clustered keys one after the other; other forms have keys in random order
/// anyway, but for `sequential` and files.
enum class LoadOrder : std::uint8_t {
  random,      ///< a keyed permutation of the ids
  sequential,  ///< ascending ids
};
[[nodiscard]] const char* name_of(LoadOrder order) noexcept;
/// The order in which keys of a form would arrive: sequential for snowflake and clustered.
[[nodiscard]] LoadOrder natural_order(Keys::Form form) noexcept;

struct Workload {
  std::string name = "custom";
  std::uint64_t records = 1'000'000;  ///< loaded before the run; at most 2^36
  std::uint64_t key_range = 0;        ///< ids that the run takes, see above; 0: no such range
  std::uint64_t operations = 0;       ///< per repetition over all threads; 0: not limited so
  double seconds = 0;                 ///< per repetition; 0: not limited so
  std::uint64_t seed = 1;             ///< thread t draws from stream (seed, t)
  Mix mix = Mix::lookups_only();
  std::uint64_t mix_steps = 0;  ///< the run has the shares `in_steps`; 0: exactly
  std::uint64_t batch = 1;      ///< operations of one kind that a thread hands over in one call
  std::uint64_t think_ns = 0;   ///< what each thread waits between operations, outside of latencies
  Distribution distribution;
  Keys keys;
  /// Length of every value. Integer keys with another one than 8 need an index of slots.
  std::size_t value_bytes = 8;
  ScanCount scan;
  std::optional<LoadOrder> load_order;  ///< nothing: natural_order()

  [[nodiscard]] bool is_bytes() const noexcept { return workload::is_bytes(keys.form); }
  [[nodiscard]] LoadOrder resolved_load_order() const noexcept {
    return load_order.value_or(natural_order(keys.form));
  }
  /// The mix that the operations have.
  [[nodiscard]] Mix dealt_mix() const noexcept { return in_steps(mix, mix_steps); }
  /// Either limit replaces the other: a flag overrides what the file said.
  void limit_operations(std::uint64_t count) noexcept {
    operations = count;
    seconds = 0;
  }
  void limit_seconds(double limit) noexcept {
    seconds = limit;
    operations = 0;
  }
};

/// Checks ranges and combinations. Call after the last flag was applied; then open_key_file()
/// (keys.h). Neither operations nor seconds is allowed (the driver has a default), both are not.
/// Errors: usage; `where` names the setting as the TOML does ("keys.theta", "mix", "records").
[[nodiscard]] Result<void> validate(const Workload& workload);

/// Reads a TOML file (workloads/*.toml), strictly. A relative key file is relative to the TOML.
/// Does not open the key file. Errors: not_found, bad_input with `where` = "file:line".
[[nodiscard]] Result<Workload> load_workload(const std::filesystem::path& path);

/// The same from text; `file` is the name errors carry, and its folder is where key files are.
[[nodiscard]] Result<Workload> parse_workload(std::string_view text,
                                              const std::filesystem::path& file);

/// Reads "uniform", "zipfian", "zipfian:0.99", "self_similar:0.2", "latest:0.99", "sequential".
/// Errors: usage, with `where`.
[[nodiscard]] Result<Distribution> parse_distribution(std::string_view text,
                                                      std::string_view where = "--distribution");

/// Reads "mixed", "golden", "sequential", "prefixed:user", "random:16", "random:8-2048",
/// "file:names.txt", "integers:numbers.txt", "snowflake" and the other key sets. Errors: usage,
/// with `where`.
[[nodiscard]] Result<Keys> parse_keys(std::string_view text, std::string_view where = "--keys");

/// Reads "100" or "1-100". Errors: usage, with `where`.
[[nodiscard]] Result<ScanCount> parse_scan_count(std::string_view text,
                                                 std::string_view where = "--scan-count");

/// Everything resolved, for the run record: name, records, seed, mix (as asked for), distribution
/// (with theta or h), keys, value_bytes, scan_count, load_order, mix_steps and think_ns where they
/// are not 0, and batch where it is not 1.
[[nodiscard]] nlohmann::json json_of(const Workload& workload);

}  // namespace perdure::workload
