#include "workload/workload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "core/suggest.h"
#include "core/units.h"
#include "workload/keys.h"

namespace perdure::workload {
namespace {

constexpr std::array<const char*, 5> distribution_names{"uniform", "zipfian", "self_similar",
                                                        "latest", "sequential"};
constexpr std::array<const char*, 16> form_names{
    "mixed",    "golden", "sequential", "integers", "snowflake",   "clustered", "ipv4",  "kmer",
    "prefixed", "random", "file",       "uuid",     "uuid_binary", "kmer_text", "email", "url"};
constexpr std::size_t prefixed_digits = 20;

std::string listed(std::span<const char* const> names) {
  std::string text = "use ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

/// The place of `name` among `names`, or an error that suggests one.
Result<std::size_t> find_name(std::string_view name, std::span<const char* const> names,
                              std::string_view what, std::string_view where) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (name == names[i]) return i;
  const std::vector<std::string> known(names.begin(), names.end());
  return usage("no " + std::string(what) + " is called '" + std::string(name) + "'", where,
               suggestion(name, known, listed(names)));
}

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// "a" or "a-b" as two whole numbers.
Result<std::pair<std::uint64_t, std::uint64_t>> parse_range(std::string_view text,
                                                            std::string_view where) {
  const std::size_t dash = text.find('-');
  const auto low = parse_count(text.substr(0, dash), where);
  if (!low) return low.error();
  if (dash == std::string_view::npos) return std::pair{*low, *low};
  const auto high = parse_count(text.substr(dash + 1), where);
  if (!high) return high.error();
  return std::pair{*low, *high};
}

Result<void> validate_keys(const Keys& keys) {
  if (keys.form == Keys::Form::prefixed && keys.prefix.size() > longest_key_bytes - prefixed_digits)
    return usage("the prefix has " + std::to_string(keys.prefix.size()) + " bytes", "keys.prefix",
                 "20 digits follow it and a key has at most 2048 bytes: use at most 2028");
  if (keys.form == Keys::Form::random) {
    if (keys.min_bytes > keys.max_bytes)
      return usage("the shortest key is longer than the longest", "keys.length",
                   "write the smaller length first");
    if (keys.min_bytes < 8 || keys.max_bytes > longest_key_bytes)
      return usage("random keys of " + std::to_string(keys.min_bytes) + " to " +
                       std::to_string(keys.max_bytes) + " bytes are out of range",
                   "keys.length", "use 8 to 2048: 8 of them make each key unique");
    if (keys.mean_bytes != 0 &&
        (keys.mean_bytes <= keys.min_bytes || keys.mean_bytes >= keys.max_bytes))
      return usage("the mean length " + std::to_string(keys.mean_bytes) + " is out of range",
                   "keys.mean_length", "use one between the shortest and the longest");
  }
  if (keys.from_file() && keys.file.empty())
    return usage("no key file is given", "keys.file", "name a file with one key per line");
  return {};
}

/// Whether a key set has so many keys.
Result<void> validate_key_count(const Workload& workload) {
  const Keys::Form form = workload.keys.form;
  if (!is_key_set(form)) return {};
  const std::uint64_t ids = KeySpace(workload).ids();
  if (std::max(workload.records, workload.key_range) <= ids) return {};
  return usage(std::string(name_of(form)) + " has " + std::to_string(ids) + " keys",
               workload.records > ids ? "records" : "key_range", "give fewer, or other keys");
}

Result<void> validate_distribution(const Distribution& distribution) {
  const auto kind = distribution.kind;
  const bool has_theta = kind == Distribution::Kind::zipfian || kind == Distribution::Kind::latest;
  if (has_theta && !(distribution.theta > 0 && distribution.theta <= 10))
    return usage("theta is out of range", "keys.theta",
                 "use a number above 0 and at most 10, as 0.99; for theta 0 use uniform");
  if (kind == Distribution::Kind::self_similar && !(distribution.h > 0 && distribution.h <= 0.5))
    return usage("h is out of range", "keys.h",
                 "use a number above 0 and at most 0.5; 0.2 is the 80-20 rule");
  return {};
}

Result<void> validate_range(const Workload& workload) {
  if (workload.key_range == 0) return {};
  if (workload.key_range < workload.records)
    return usage("the key range has fewer keys than are loaded", "key_range",
                 "give at least as many as records; half of them loaded is usual");
  if (workload.distribution.kind != Distribution::Kind::uniform)
    return usage("a key range is uniform", "keys.distribution", "leave it out, or the key range");
  for (const Operation operation :
       {Operation::lookup_negative, Operation::upsert, Operation::update})
    if (workload.mix.has(operation))
      return usage(std::string("a key range has no ") + name_of(operation), "mix",
                   "use lookup, insert, remove and scan");
  return {};
}

}  // namespace

const char* name_of(Distribution::Kind kind) noexcept {
  return distribution_names[static_cast<std::size_t>(kind)];
}
const char* name_of(Keys::Form form) noexcept { return form_names[static_cast<std::size_t>(form)]; }
const char* name_of(LoadOrder order) noexcept {
  return order == LoadOrder::random ? "random" : "sequential";
}
LoadOrder natural_order(Keys::Form form) noexcept {
  const bool by_time = form == Keys::Form::snowflake || form == Keys::Form::clustered;
  return by_time ? LoadOrder::sequential : LoadOrder::random;
}

Result<void> validate(const Workload& workload) {
  constexpr std::uint64_t most_records = 1ULL << 36;
  constexpr std::uint64_t most_operations = 1ULL << 60;
  constexpr std::uint32_t longest_scan = 1U << 24;
  constexpr double longest_seconds = 1e6;
  const Mix& mix = workload.mix;
  if (const auto sum = check_sum(mix, "mix"); !sum) return sum.error();
  if (workload.mix_steps == 1 || workload.mix_steps > most_mix_steps)
    return usage("a mix has no shares of that size", "mix_steps",
                 "use 256 for 256ths, up to 65536, or 0 for exact shares");
  if (workload.batch == 0 || workload.batch > most_batch)
    return usage("no such batches", "batch", "use 1 to 1024 operations; 1: none");
  if (workload.think_ns > longest_think_ns)
    return usage("longer than a second", "think_ns", "use up to 1_000_000_000");
  if (workload.records > most_records)
    return usage("more than 2^36 records", "records", "use fewer");
  const bool adds = mix.has(Operation::insert) || mix.has(Operation::upsert);
  const bool needs_records =
      !adds && mix.parts_per_billion[Operation::lookup_negative] != whole_share;
  if (workload.records == 0 && needs_records && !workload.keys.from_file())
    return usage("no records to operate on", "records", "load some, or insert in the mix");
  if (const auto range = validate_range(workload); !range) return range;
  if (workload.operations > most_operations)
    return usage("more than 2^60 operations", "operations", "use fewer, or a limit in seconds");
  if (!(workload.seconds >= 0 && workload.seconds <= longest_seconds))
    return usage("the time limit is out of range", "seconds", "use 0 to 1_000_000 seconds");
  if (workload.operations != 0 && workload.seconds > 0)
    return usage("operations and seconds are both given", "seconds", "give one of them");
  if (workload.scan.min < 1 || workload.scan.min > workload.scan.max ||
      workload.scan.max > longest_scan)
    return usage("the scan count is out of range", "scan.count",
                 "use 1 to 16_777_216, the smaller number first");
  if (workload.value_bytes < shortest_value_bytes || workload.value_bytes > longest_value_bytes)
    return usage("values of " + std::to_string(workload.value_bytes) + " bytes are out of range",
                 "values.bytes", "use 8 to 65536: 8 of them say whose value it is");
  if (const auto keys = validate_keys(workload.keys); !keys) return keys;
  if (const auto count = validate_key_count(workload); !count) return count;
  return validate_distribution(workload.distribution);
}

Result<Distribution> parse_distribution(std::string_view text, std::string_view where) {
  const std::size_t colon = text.find(':');
  const auto kind = find_name(text.substr(0, colon), distribution_names, "distribution", where);
  if (!kind) return kind.error();
  Distribution distribution;
  distribution.kind = static_cast<Distribution::Kind>(*kind);
  if (colon == std::string_view::npos) return distribution;
  const std::string_view given = text.substr(colon + 1);
  const std::string name = distribution_names[*kind];
  double* parameter = nullptr;
  switch (distribution.kind) {
    case Distribution::Kind::zipfian:
    case Distribution::Kind::latest:
      parameter = &distribution.theta;
      break;
    case Distribution::Kind::self_similar:
      parameter = &distribution.h;
      break;
    default:
      return usage(name + " takes no parameter", where, "write just " + name);
  }
  const std::optional<double> value = parse_real(given);
  if (!value)
    return usage("'" + std::string(given) + "' is no number", where,
                 parameter == &distribution.theta ? "write theta, as in " + name + ":0.99"
                                                  : "write h, as in " + name + ":0.2");
  *parameter = *value;
  if (auto range = validate_distribution(distribution); !range) {
    Error error = range.error();
    error.where = where;
    return error;
  }
  return distribution;
}

Result<Keys> parse_keys(std::string_view text, std::string_view where) {
  const std::size_t colon = text.find(':');
  const auto form = find_name(text.substr(0, colon), form_names, "form of keys", where);
  if (!form) return form.error();
  Keys keys;
  keys.form = static_cast<Keys::Form>(*form);
  if (colon != std::string_view::npos) {
    const std::string_view given = text.substr(colon + 1);
    if (keys.form == Keys::Form::prefixed) {
      keys.prefix = given;
    } else if (keys.form == Keys::Form::random) {
      const std::size_t tilde = given.find('~');
      const auto range = parse_range(given.substr(0, tilde), where);
      if (!range) return range.error();
      keys.min_bytes = range->first;
      keys.max_bytes = range->second;
      if (tilde != std::string_view::npos) {
        const auto mean = parse_count(given.substr(tilde + 1), where);
        if (!mean) return mean.error();
        if (*mean == 0) return usage("a mean length of 0", where, "write it as in 8-256~21");
        keys.mean_bytes = *mean;
      }
    } else if (keys.from_file()) {
      keys.file = given;
    } else {
      const std::string name = form_names[*form];
      return usage(name + " takes no parameter", where, "write just " + name);
    }
  }
  if (const auto valid = validate_keys(keys); !valid) {
    Error error = valid.error();
    error.where = where;
    return error;
  }
  return keys;
}

Result<ScanCount> parse_scan_count(std::string_view text, std::string_view where) {
  const auto range = parse_range(text, where);
  if (!range) return range.error();
  constexpr std::uint64_t longest = 1U << 24;
  if (range->first < 1 || range->first > range->second || range->second > longest)
    return usage("'" + std::string(text) + "' is out of range", where,
                 "use 1 to 16_777_216, the smaller number first, as in 1-100");
  return ScanCount{static_cast<std::uint32_t>(range->first),
                   static_cast<std::uint32_t>(range->second)};
}

nlohmann::json json_of(const Workload& workload) {
  nlohmann::json mix = nlohmann::json::object();
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (workload.mix.has(operation)) mix[name_of(operation)] = workload.mix.share(operation);
  }
  const Keys& keys = workload.keys;
  nlohmann::json key = {{"kind", workload.is_bytes() ? "bytes" : "integer"},
                        {"form", name_of(keys.form)}};
  if (keys.form == Keys::Form::prefixed) key["prefix"] = keys.prefix;
  if (keys.form == Keys::Form::random) {
    key["min_bytes"] = keys.min_bytes;
    key["max_bytes"] = keys.max_bytes;
    if (keys.mean_bytes != 0) key["mean_bytes"] = keys.mean_bytes;
  }
  if (keys.from_file()) key["file"] = keys.file.string();
  const Distribution& distribution = workload.distribution;
  nlohmann::json result = {{"name", workload.name},
                           {"records", workload.records},
                           {"seed", workload.seed},
                           {"mix", mix},
                           {"distribution", name_of(distribution.kind)},
                           {"keys", key},
                           {"value_bytes", workload.value_bytes},
                           {"load_order", name_of(workload.resolved_load_order())}};
  if (workload.key_range != 0) result["key_range"] = workload.key_range;
  if (workload.mix_steps != 0) result["mix_steps"] = workload.mix_steps;
  if (workload.batch != 1) result["batch"] = workload.batch;
  if (workload.think_ns != 0) result["think_ns"] = workload.think_ns;
  const auto kind = distribution.kind;
  if (kind == Distribution::Kind::zipfian || kind == Distribution::Kind::latest)
    result["theta"] = distribution.theta;
  if (kind == Distribution::Kind::self_similar) result["h"] = distribution.h;
  if (kind == Distribution::Kind::zipfian || kind == Distribution::Kind::self_similar)
    result["scattered"] = distribution.scattered;
  if (workload.mix.has(Operation::scan)) {
    const ScanCount& scan = workload.scan;
    if (scan.min == scan.max)
      result["scan_count"] = scan.min;
    else
      result["scan_count"] = {scan.min, scan.max};
  }
  return result;
}

}  // namespace perdure::workload
