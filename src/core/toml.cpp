#include "core/toml.h"

#include <algorithm>

namespace perdure {
namespace {

/// True when the parser fails without a line number. Throws toml::parse_error.
bool gives_up(std::string_view text, toml::table& table) {
  try {
    table = toml::parse(text);
  } catch (const toml_detail::ParserGaveUp&) {
    return true;
  }
  return false;
}

// The parser does not say where it failed. It reads line by line, so the first line with which it
// fails is the one.
std::size_t line_of_failure(std::string_view text) {
  std::vector<std::size_t> end_of_line;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') end_of_line.push_back(i);
  end_of_line.push_back(text.size());
  toml::table ignored;
  const auto line =
      std::partition_point(end_of_line.begin(), end_of_line.end(), [&](std::size_t end) {
        try {
          return !gives_up(text.substr(0, end), ignored);
        } catch (const toml::parse_error&) {
          return true;  // cut off within a string, say
        }
      });
  return static_cast<std::size_t>(line - end_of_line.begin()) + 1;
}

}  // namespace

std::optional<TomlFault> parse_toml(std::string_view text, toml::table& table) {
  try {
    if (!gives_up(text, table)) return std::nullopt;
  } catch (const toml::parse_error& error) {
    return TomlFault{one_line(error.description()), error.source().begin.line};
  }
  return TomlFault{"this is not TOML", line_of_failure(text)};
}

std::vector<std::pair<std::string, const toml::node*>> in_file_order(const toml::table& table) {
  std::vector<std::pair<std::string, const toml::node*>> entries;
  for (const auto& [key, node] : table) entries.emplace_back(std::string(key.str()), &node);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.second->source().begin.line < b.second->source().begin.line;
  });
  return entries;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return line;
}

}  // namespace perdure
