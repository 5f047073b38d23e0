// The TOML form of a workload. Strict: a setting that is misspelt, of the wrong type, out of range
// or without effect is an error that names file and line.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "core/suggest.h"
#include "core/toml.h"
#include "core/units.h"
#include "workload/key_text.h"
#include "workload/workload.h"

namespace perdure::workload {
namespace {

/// One file being read. Every setter returns an error or nothing; the first error ends the reading.
class Reader {
 public:
  Reader(std::filesystem::path file) : file_(std::move(file)) {}
  [[nodiscard]] Result<Workload> read(std::string_view text);

 private:
  using Setter = Result<void> (Reader::*)(const toml::node& node);
  struct Setting {
    const char* name;
    Setter set;
  };
  static const std::array<Setting, 14> top_settings;
  static const std::array<Setting, 9> keys_settings;
  static const std::array<Setting, 1> values_settings;
  static const std::array<Setting, 1> scan_settings;

  // Tables.
  Result<void> read_table(const toml::table& table, std::string_view folder,
                          std::span<const Setting> settings);
  Result<void> nested(const toml::node& node, std::string_view name,
                      std::span<const Setting> settings);
  Result<void> set_mix(const toml::node& node);
  Result<void> set_keys(const toml::node& node);
  Result<void> set_values(const toml::node& node) {
    return nested(node, "values", values_settings);
  }
  Result<void> set_scan(const toml::node& node) { return nested(node, "scan", scan_settings); }

  // Single settings.
  Result<void> set_name(const toml::node& node) { return take_text(node, workload_.name); }
  Result<void> set_records(const toml::node& node) { return take_count(node, workload_.records); }
  Result<void> set_key_range(const toml::node& node) {
    return take_count(node, workload_.key_range);
  }
  Result<void> set_mix_steps(const toml::node& node) {
    return take_count(node, workload_.mix_steps);
  }
  Result<void> set_batch(const toml::node& node) { return take_count(node, workload_.batch); }
  Result<void> set_think_ns(const toml::node& node) { return take_count(node, workload_.think_ns); }
  Result<void> set_operations(const toml::node& node) {
    return take_count(node, workload_.operations);
  }
  Result<void> set_seconds(const toml::node& node) { return take_real(node, workload_.seconds); }
  Result<void> set_seed(const toml::node& node) { return take_count(node, workload_.seed); }
  Result<void> set_load_order(const toml::node& node);
  Result<void> set_distribution(const toml::node& node);
  Result<void> set_theta(const toml::node& node) {
    return take_real(node, workload_.distribution.theta);
  }
  Result<void> set_h(const toml::node& node) { return take_real(node, workload_.distribution.h); }
  Result<void> set_scattered(const toml::node& node);
  Result<void> set_form(const toml::node& node);
  Result<void> set_prefix(const toml::node& node) { return take_text(node, workload_.keys.prefix); }
  Result<void> set_length(const toml::node& node);
  Result<void> set_mean_length(const toml::node& node);
  Result<void> set_key_file(const toml::node& node);
  Result<void> set_value_bytes(const toml::node& node);
  Result<void> set_scan_count(const toml::node& node);

  // Types.
  Result<void> take_text(const toml::node& node, std::string& out);
  Result<void> take_count(const toml::node& node, std::uint64_t& out);
  Result<void> take_real(const toml::node& node, double& out);
  Result<void> take_range(const toml::node& node, std::uint64_t& low, std::uint64_t& high);

  [[nodiscard]] Result<void> check_effects() const;
  [[nodiscard]] std::string place(const toml::node& node) const {
    return file_.string() + ":" + std::to_string(node.source().begin.line);
  }
  [[nodiscard]] Error bad(std::string what, std::string where, std::string remedy) const {
    return {ErrorCode::bad_input, std::move(what), std::move(where), std::move(remedy)};
  }
  /// An error of a parser shared with the command line, as this file's.
  [[nodiscard]] Error bad(const Error& error) const {
    return bad(current_ + ": " + error.what, error.where, error.remedy);
  }
  [[nodiscard]] Error wrong_type(const toml::node& node, const char* remedy) const {
    return bad(current_ + " has the wrong type", place(node), remedy);
  }

  std::filesystem::path file_;
  Workload workload_;
  std::map<std::string, std::string, std::less<>> place_of_;  // setting -> "file:line"
  std::string current_;                                       // the setting being read
};

const std::array<Reader::Setting, 14> Reader::top_settings{{{"name", &Reader::set_name},
                                                            {"records", &Reader::set_records},
                                                            {"key_range", &Reader::set_key_range},
                                                            {"operations", &Reader::set_operations},
                                                            {"seconds", &Reader::set_seconds},
                                                            {"seed", &Reader::set_seed},
                                                            {"load_order", &Reader::set_load_order},
                                                            {"mix", &Reader::set_mix},
                                                            {"mix_steps", &Reader::set_mix_steps},
                                                            {"batch", &Reader::set_batch},
                                                            {"think_ns", &Reader::set_think_ns},
                                                            {"keys", &Reader::set_keys},
                                                            {"values", &Reader::set_values},
                                                            {"scan", &Reader::set_scan}}};
const std::array<Reader::Setting, 9> Reader::keys_settings{
    {{"distribution", &Reader::set_distribution},
     {"theta", &Reader::set_theta},
     {"h", &Reader::set_h},
     {"scattered", &Reader::set_scattered},
     {"form", &Reader::set_form},
     {"prefix", &Reader::set_prefix},
     {"length", &Reader::set_length},
     {"mean_length", &Reader::set_mean_length},
     {"file", &Reader::set_key_file}}};
const std::array<Reader::Setting, 1> Reader::values_settings{{{"bytes", &Reader::set_value_bytes}}};
const std::array<Reader::Setting, 1> Reader::scan_settings{{{"count", &Reader::set_scan_count}}};

Result<Workload> Reader::read(std::string_view text) {
  toml::table table;
  if (const auto fault = parse_toml(text, table))
    return bad(fault->what, file_.string() + ":" + std::to_string(fault->line),
               "mend the TOML there");
  workload_.name = file_.stem().string();
  workload_.mix = Mix{};
  if (const auto read = read_table(table, "", top_settings); !read) return read.error();
  if (!place_of_.contains("mix")) workload_.mix = Mix::lookups_only();
  if (!place_of_.contains("records")) {
    if (!workload_.keys.from_file())
      return bad("records is missing", file_.string() + ":1",
                 "say how many to load before the run, as in records = 1_000_000");
    workload_.records = 0;
  }
  if (const auto effects = check_effects(); !effects) return effects.error();
  if (const auto valid = validate(workload_); !valid) {
    Error error = valid.error();
    const auto at = place_of_.find(error.where);
    return bad(error.where + ": " + error.what,
               at != place_of_.end() ? at->second : file_.string() + ":1", error.remedy);
  }
  return workload_;
}

Result<void> Reader::read_table(const toml::table& table, std::string_view folder,
                                std::span<const Setting> settings) {
  for (const auto& [name, node] : in_file_order(table)) {
    const auto setting = std::find_if(settings.begin(), settings.end(),
                                      [&](const Setting& s) { return name == s.name; });
    const std::string path = folder.empty() ? name : std::string(folder) + "." + name;
    if (setting == settings.end()) {
      std::vector<std::string> known;
      std::string all = "known here:";
      for (const Setting& s : settings) {
        known.emplace_back(s.name);
        all += std::string(" ") + s.name;
      }
      return bad("no setting is called '" + one_line(path) + "'", place(*node),
                 suggestion(name, known, all));
    }
    current_ = path;
    place_of_[path] = place(*node);
    if (const auto set = (this->*setting->set)(*node); !set) return set.error();
  }
  return {};
}

Result<void> Reader::nested(const toml::node& node, std::string_view name,
                            std::span<const Setting> settings) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return wrong_type(node, "make it a table with a [header] of its own");
  return read_table(*table, name, settings);
}

Result<void> Reader::set_mix(const toml::node& node) {
  const toml::table* table = node.as_table();
  if (table == nullptr)
    return wrong_type(node, "make it a table, [mix], with a share per operation");
  for (const auto& [name, share] : in_file_order(*table)) {
    current_ = "mix." + name;
    const auto operation = parse_operation(name, place(*share));
    if (!operation)
      return bad(one_line(operation.error().what), place(*share), operation.error().remedy);
    std::string text;
    if (const auto* real = share->as_floating_point()) {
      // The shortest decimal that reads back as this double is what the file says, as long as that
      // has at most 15 digits: so 0.1 becomes exactly one tenth.
      std::array<char, 512> buffer;
      const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                                real->get(), std::chars_format::fixed);
      text.assign(buffer.data(), failure == std::errc{} ? end : buffer.data());
    } else if (const auto* integer = share->as_integer()) {
      text = std::to_string(integer->get());
    } else {
      return wrong_type(*share, "write a decimal from 0 to 1, as in 0.95");
    }
    const auto parts = parse_share(text, place(*share));
    if (!parts) return bad(parts.error());
    workload_.mix.parts_per_billion[*operation] = *parts;
  }
  current_ = "mix";
  if (const auto sum = check_sum(workload_.mix, place(node)); !sum) return bad(sum.error());
  return {};
}

Result<void> Reader::set_load_order(const toml::node& node) {
  std::string text;
  if (const auto taken = take_text(node, text); !taken) return taken.error();
  for (const LoadOrder order : {LoadOrder::random, LoadOrder::sequential}) {
    if (text != name_of(order)) continue;
    workload_.load_order = order;
    return {};
  }
  const std::vector<std::string> known{"random", "sequential"};
  return bad("no load order is called '" + one_line(text) + "'", place(node),
             suggestion(text, known, "use random or sequential"));
}

Result<void> Reader::set_distribution(const toml::node& node) {
  std::string text;
  if (const auto taken = take_text(node, text); !taken) return taken.error();
  const auto distribution = parse_distribution(one_line(text), place(node));
  if (!distribution) return bad(distribution.error());
  if (text.find(':') != std::string::npos)
    return bad(current_ + " holds a parameter", place(node),
               "write it as a setting of its own, theta or h");
  workload_.distribution.kind = distribution->kind;
  return {};
}

Result<void> Reader::set_scattered(const toml::node& node) {
  const auto* flag = node.as_boolean();
  if (flag == nullptr) return wrong_type(node, "write true or false");
  workload_.distribution.scattered = flag->get();
  return {};
}

Result<void> Reader::set_form(const toml::node& node) {
  std::string text;
  if (const auto taken = take_text(node, text); !taken) return taken.error();
  // The file may stand in another setting: give the parser one of its own.
  const auto keys = parse_keys(text == "file" ? "file:x" : one_line(text), place(node));
  if (!keys) return bad(keys.error());
  if (text.find(':') != std::string::npos)
    return bad(current_ + " holds a parameter", place(node),
               "write it as a setting of its own: prefix, length or file");
  workload_.keys.form = keys->form;
  return {};
}

Result<void> Reader::set_keys(const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) return nested(node, "keys", keys_settings);
  auto keys = parse_keys(one_line(text->get()), place(node));
  if (!keys) return bad(keys.error());
  workload_.keys = std::move(keys).value();
  if (workload_.keys.from_file()) workload_.keys.file = file_.parent_path() / workload_.keys.file;
  return {};
}

Result<void> Reader::set_length(const toml::node& node) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  if (const auto taken = take_range(node, low, high); !taken) return taken.error();
  workload_.keys.min_bytes = low;
  workload_.keys.max_bytes = high;
  return {};
}

Result<void> Reader::set_mean_length(const toml::node& node) {
  std::uint64_t mean = 0;
  if (const auto taken = take_count(node, mean); !taken) return taken.error();
  workload_.keys.mean_bytes = mean;
  return {};
}

Result<void> Reader::set_key_file(const toml::node& node) {
  std::string text;
  if (const auto taken = take_text(node, text); !taken) return taken.error();
  if (!text.empty()) workload_.keys.file = file_.parent_path() / text;
  return {};
}

Result<void> Reader::set_value_bytes(const toml::node& node) {
  std::uint64_t bytes = 0;
  if (const auto* text = node.as_string()) {
    const auto parsed = parse_bytes(text->get(), place(node));
    if (!parsed) return bad(parsed.error());
    bytes = *parsed;
  } else if (const auto taken = take_count(node, bytes); !taken) {
    return taken.error();
  }
  workload_.value_bytes = bytes;
  return {};
}

Result<void> Reader::set_scan_count(const toml::node& node) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  if (const auto taken = take_range(node, low, high); !taken) return taken.error();
  constexpr std::uint64_t limit = std::numeric_limits<std::uint32_t>::max();
  workload_.scan.min = static_cast<std::uint32_t>(std::min(low, limit));
  workload_.scan.max = static_cast<std::uint32_t>(std::min(high, limit));
  return {};
}

Result<void> Reader::take_text(const toml::node& node, std::string& out) {
  const auto* text = node.as_string();
  if (text == nullptr) return wrong_type(node, "write a string in quotes");
  out = text->get();
  return {};
}

Result<void> Reader::take_count(const toml::node& node, std::uint64_t& out) {
  if (const auto* integer = node.as_integer()) {
    if (integer->get() < 0) return bad(current_ + " is negative", place(node), "use 0 or more");
    out = static_cast<std::uint64_t>(integer->get());
    return {};
  }
  const auto* text = node.as_string();
  if (text == nullptr) return wrong_type(node, "write a whole number, as in 1_000_000");
  const auto parsed = parse_count(text->get(), place(node));
  if (!parsed) return bad(parsed.error());
  out = *parsed;
  return {};
}

Result<void> Reader::take_real(const toml::node& node, double& out) {
  if (const auto* real = node.as_floating_point()) {
    out = real->get();
  } else if (const auto* integer = node.as_integer()) {
    out = static_cast<double>(integer->get());
  } else {
    return wrong_type(node, "write a number");
  }
  return {};
}

Result<void> Reader::take_range(const toml::node& node, std::uint64_t& low, std::uint64_t& high) {
  const toml::array* pair = node.as_array();
  if (pair == nullptr) {
    const auto taken = take_count(node, low);
    high = low;
    return taken;
  }
  if (pair->size() != 2)
    return wrong_type(node, "write a number, or the least and the most: [1, 100]");
  if (const auto taken = take_count((*pair)[0], low); !taken) return taken;
  return take_count((*pair)[1], high);
}

Result<void> Reader::check_effects() const {
  using Kind = Distribution::Kind;
  using Form = Keys::Form;
  const Kind kind = workload_.distribution.kind;
  const Form form = workload_.keys.form;
  const bool ranked = kind == Kind::zipfian || kind == Kind::self_similar;
  struct Rule {
    const char* setting;
    bool has_effect;
    const char* belongs_to;
  };
  const std::array<Rule, 8> rules{
      {{"keys.theta", kind == Kind::zipfian || kind == Kind::latest, "zipfian and latest"},
       {"keys.h", kind == Kind::self_similar, "self_similar"},
       {"keys.scattered", ranked, "zipfian and self_similar"},
       {"keys.prefix", form == Form::prefixed, "prefixed keys"},
       {"keys.length", form == Form::random, "random keys"},
       {"keys.mean_length", form == Form::random, "random keys"},
       {"keys.file", workload_.keys.from_file(), "keys from a file"},
       {"scan.count", workload_.mix.has(Operation::scan), "a mix with scans"}}};
  for (const Rule& rule : rules) {
    const auto at = place_of_.find(rule.setting);
    if (at == place_of_.end() || rule.has_effect) continue;
    return bad(std::string(rule.setting) + " has no effect here", at->second,
               std::string("it belongs to ") + rule.belongs_to + ": take it out");
  }
  return {};
}

}  // namespace

Result<Workload> parse_workload(std::string_view text, const std::filesystem::path& file) {
  return Reader(file).read(text);
}

Result<Workload> load_workload(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure))
    return Error{ErrorCode::not_found, "there is no such workload file", path.string(),
                 "name a TOML file, as those under workloads/"};
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in)
    return Error{ErrorCode::io, std::strerror(errno), path.string(), "check its permissions"};
  if (is_ycsb_properties(text))
    return Error{ErrorCode::bad_input, "is a property file of YCSB", path.string() + ":1",
                 "give --workload ycsb-a or another of workloads/, or write it as one of these"};
  return parse_workload(text, path);
}

}  // namespace perdure::workload
