// The strict reader of a platform's TOML file.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "core/data_files.h"
#include "core/suggest.h"
#include "core/toml.h"
#include "platform/description/description.h"

namespace perdure::platform {
namespace {

namespace fs = std::filesystem;

constexpr const char* folder = "platforms";
constexpr std::size_t most_bases = 8;  // a longer chain is a circle
constexpr std::uintmax_t most_file_bytes = 1 << 20;

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.12g", value);
  return text.data();
}

std::string path_of(const PlatformField& field) {
  return std::string(field.section) + "." + std::string(field.key);
}

/// One file being read. Every step returns an error or nothing; the first error ends the reading.
class Reader {
 public:
  Reader(fs::path file, std::size_t depth) : file_(std::move(file)), depth_(depth) {}
  [[nodiscard]] Result<PlatformDescription> read(std::string_view text);

 private:
  Result<void> read_top(const toml::table& table);
  Result<void> read_section(const std::string& section, const toml::node& node);
  Result<void> read_field(const PlatformField& field, const toml::node& node);
  Result<void> read_domain(const toml::node& node);
  Result<void> read_name(const toml::node& node);
  Result<void> adopt_base(const toml::node* node);
  Result<double> value_of(const PlatformField& field, const toml::node& node) const;
  [[nodiscard]] Result<void> check_complete() const;

  Result<std::string> text_of(const std::string& name, const toml::node& node) const {
    const auto* text = node.as_string();
    if (text == nullptr) return bad(name + " is not text", place(node), "write it in quotes");
    return text->get();
  }
  [[nodiscard]] Error bad(std::string what, std::string where, std::string remedy) const {
    return {ErrorCode::bad_input, std::move(what), std::move(where), std::move(remedy)};
  }
  [[nodiscard]] std::string at_line(std::size_t line) const {
    return one_line(file_.string()) + ":" + std::to_string(line);
  }
  [[nodiscard]] std::string place(const toml::node& node) const {
    return at_line(node.source().begin.line);
  }

  fs::path file_;
  std::size_t depth_;
  bool has_domain_ = false;
  PlatformDescription read_;
};

Result<PlatformDescription> load_file(const fs::path& path, std::size_t depth);

Result<PlatformDescription> Reader::read(std::string_view text) {
  toml::table table;
  if (const auto fault = parse_toml(text, table))
    return bad(fault->what, at_line(fault->line), "mend the TOML there");
  read_.file = file_;
  read_.platform.name = file_.stem().string();
  read_.values.resize(platform_fields().size());
  // The base first, wherever it is written: all else is laid over it.
  if (auto adopted = adopt_base(table.get("base")); !adopted) return adopted.error();
  if (auto top = read_top(table); !top) return top.error();
  if (auto complete = check_complete(); !complete) return complete.error();
  if (auto agrees = check_platform(read_); !agrees) return agrees.error();
  return std::move(read_);
}

Result<void> Reader::adopt_base(const toml::node* node) {
  if (node == nullptr) return {};
  const auto base = text_of("base", *node);
  if (!base) return base.error();
  if (depth_ >= most_bases) return bad("the bases go round in a circle", place(*node), "break it");
  // A path counts from the folder of the file that names it.
  const bool is_path = base->find('/') != std::string::npos || base->ends_with(".toml");
  const fs::path path = is_path ? file_.parent_path() / *base : data_path(folder, *base);
  std::error_code ignored;
  if (base->find('\0') != std::string::npos || !fs::is_regular_file(path, ignored))
    return Error{ErrorCode::bad_input, "there is no platform '" + one_line(*base) + "' to build on",
                 place(*node),
                 suggestion(*base, platform_names(), "`perdure list platforms` shows them")};
  auto loaded = load_file(path, depth_ + 1);
  if (!loaded) return loaded.error();
  const fs::path file = read_.file;
  const std::string name = read_.platform.name;
  read_ = std::move(loaded).value();
  read_.file = file;
  read_.platform.name = name;
  read_.base = *base;
  has_domain_ = true;
  return {};
}

Result<void> Reader::read_top(const toml::table& table) {
  std::vector<std::string> known = {"name", "title", "base", "persistence_domain"};
  for (const PlatformField& field : platform_fields())
    if (known.back() != field.section) known.emplace_back(field.section);
  for (const auto& [name, node] : in_file_order(table)) {
    Result<void> done;
    if (name == "base") continue;
    if (name == "name")
      done = read_name(*node);
    else if (name == "persistence_domain")
      done = read_domain(*node);
    else if (name == "title") {
      const auto title = text_of(name, *node);
      if (!title) return title.error();
      read_.platform.title = one_line(*title);
    } else if (std::find(known.begin(), known.end(), name) != known.end()) {
      done = read_section(name, *node);
    } else {
      std::string all = "known here:";
      for (const std::string& one : known) all += " " + one;
      return bad("nothing is called '" + one_line(name) + "'", place(*node),
                 suggestion(name, known, all));
    }
    if (!done) return done;
  }
  return {};
}

Result<void> Reader::read_name(const toml::node& node) {
  const auto name = text_of("name", node);
  if (!name) return name.error();
  const bool plain = !name->empty() && std::ranges::all_of(*name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
  if (!plain)
    return bad("'" + one_line(*name) + "' is no name", place(node),
               "use letters, digits, '-', '_' and '.'");
  read_.platform.name = *name;
  return {};
}

Result<void> Reader::read_domain(const toml::node& node) {
  const auto text = text_of("persistence_domain", node);
  if (!text) return text.error();
  for (const auto domain :
       {PersistenceDomain::adr, PersistenceDomain::eadr, PersistenceDomain::none}) {
    if (*text != name_of(domain)) continue;
    read_.platform.domain = domain;
    read_.domain_place = place(node);
    has_domain_ = true;
    return {};
  }
  const std::vector<std::string> known{"adr", "eadr", "none"};
  return bad("no persistence domain is called '" + one_line(*text) + "'", place(node),
             suggestion(*text, known, "use adr, eadr or none"));
}

Result<void> Reader::read_section(const std::string& section, const toml::node& node) {
  const toml::table* table = node.as_table();
  if (table == nullptr)
    return bad(section + " is not a table", place(node), "write [" + section + "] above its keys");
  const auto fields = platform_fields();
  for (const auto& [key, entry] : in_file_order(*table)) {
    const auto field = std::ranges::find_if(fields, [&](const PlatformField& candidate) {
      return candidate.section == section && candidate.key == key;
    });
    if (field == fields.end()) {
      std::vector<std::string> known;
      for (const PlatformField& candidate : fields)
        if (candidate.section == section) known.emplace_back(candidate.key);
      return bad("[" + section + "] has no '" + one_line(key) + "'", place(*entry),
                 suggestion(key, known, "`perdure describe platform dram` shows all keys"));
    }
    if (auto read = read_field(*field, *entry); !read) return read;
  }
  return {};
}

Result<void> Reader::read_field(const PlatformField& field, const toml::node& node) {
  const std::string path = path_of(field);
  const std::string form = "write " + std::string(field.key) +
                           " = { value = " + number_text(field.get(Platform{})) +
                           ", source = \"where it comes from\" }";
  const toml::table* entry = node.as_table();
  if (entry == nullptr) return bad(path + " has no source", place(node), form);
  const toml::node* value = nullptr;
  const toml::node* source = nullptr;
  for (const auto& [key, part] : in_file_order(*entry)) {
    if (key == "value")
      value = part;
    else if (key == "source")
      source = part;
    else
      return bad(path + " has no '" + one_line(key) + "'", place(*part), form);
  }
  if (value == nullptr) return bad(path + " has no value", place(node), form);
  if (source == nullptr) return bad(path + " has no source", place(node), form);
  const auto number = value_of(field, *value);
  if (!number) return number.error();
  const auto text = text_of("the source of " + path, *source);
  if (!text) return text.error();
  if (text->find_first_not_of(" \t\r\n") == std::string::npos)
    return bad("the source of " + path + " is empty", place(*source), form);
  field.set(read_.platform, *number);
  const auto index = static_cast<std::size_t>(&field - platform_fields().data());
  read_.values[index] = {&field, one_line(*text), place(node), std::string()};
  return {};
}

Result<double> Reader::value_of(const PlatformField& field, const toml::node& node) const {
  const std::string path = path_of(field);
  if (field.kind == FieldKind::boolean) {
    const auto* flag = node.as_boolean();
    if (flag == nullptr)
      return bad(path + " is a switch", place(node), "write value = true or value = false");
    return flag->get() ? 1.0 : 0.0;
  }
  double number = 0;
  if (const auto* integer = node.as_integer())
    number = static_cast<double>(integer->get());
  else if (const auto* real = node.as_floating_point();
           real != nullptr && field.kind == FieldKind::number)
    number = real->get();
  else
    return bad(path + " has the wrong type", place(node),
               field.kind == FieldKind::integer ? "write a whole number" : "write a number");
  if (!(number >= field.minimum && number <= field.maximum)) {
    const std::string unit = field.unit.empty() ? "" : " " + std::string(field.unit);
    return bad(path + " is out of range: " + number_text(number) + unit, place(node),
               "give " + number_text(field.minimum) + " to " + number_text(field.maximum) + unit);
  }
  return number;
}

Result<void> Reader::check_complete() const {
  std::size_t missing = 0;
  const PlatformField* first = nullptr;
  const auto fields = platform_fields();
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (read_.values[i].field == nullptr && missing++ == 0) first = &fields[i];
  if (first != nullptr)
    return bad(path_of(*first) + " is missing" +
                   (missing > 1 ? ", and " + std::to_string(missing - 1) + " more" : ""),
               at_line(1), "give it, or say base = \"PLATFORM\" to take it from another");
  if (!has_domain_)
    return bad("persistence_domain is missing", at_line(1), "give \"adr\", \"eadr\" or \"none\"");
  return {};
}

Result<PlatformDescription> load_file(const fs::path& path, std::size_t depth) {
  std::error_code failure;
  if (fs::file_size(path, failure) > most_file_bytes && !failure)
    return Error{ErrorCode::bad_input, "is far too long for a platform", path.string() + ":1",
                 "name a TOML file, as those under platforms/"};
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in)
    return Error{ErrorCode::io, std::strerror(errno), path.string(), "check its permissions"};
  auto read = Reader(path, depth).read(text);
  if (read)
    for (DescribedValue& value : read->values)
      if (value.platform.empty()) value.platform = read->platform.name;
  return read;
}

}  // namespace

Result<PlatformDescription> parse_platform(std::string_view text, const fs::path& file) {
  auto read = Reader(file, 0).read(text);
  if (read)
    for (DescribedValue& value : read->values)
      if (value.platform.empty()) value.platform = read->platform.name;
  return read;
}

Result<PlatformDescription> load_platform(const std::string& given) {
  const fs::path path = data_path(folder, given);
  std::error_code ignored;
  if (given.empty() || given.find('\0') != std::string::npos || !fs::is_regular_file(path, ignored))
    return Error{ErrorCode::not_found, "there is no platform '" + one_line(given) + "'", "platform",
                 suggestion(given, platform_names(),
                            "`perdure list platforms` shows them, or give the path of a file")};
  return load_file(path, 0);
}

std::vector<std::string> platform_names() { return data_names(folder); }

}  // namespace perdure::platform
