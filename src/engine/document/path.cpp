#include "engine/document/path.h"

#include <charconv>

namespace perdure::engine {

Answer<FieldPath> FieldPath::parse(std::string_view text) {
  FieldPath path;
  path.text_ = text;
  for (;;) {
    const std::size_t dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    if (part.empty())
      return {Code::empty_field_name, "the path '" + path.text_ + "' has an empty field name"};
    if (part.front() == '$')
      return {Code::dollar_prefixed_field_name,
              "the path '" + path.text_ + "' has a field name that begins with '$'"};
    path.parts_.emplace_back(part);
    if (dot == std::string_view::npos) break;
    text.remove_prefix(dot + 1);
  }
  if (path.parts_.size() > max_nesting)
    return {Code::bad_value, "the path '" + path.text_.substr(0, 64) + "...' is too long"};
  return path;
}

std::int64_t FieldPath::as_element(std::string_view part) noexcept {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  const bool canonical = part.size() == 1 || part.front() != '0';
  return error == std::errc() && end == part.data() + part.size() && canonical ? number : -1;
}

}  // namespace perdure::engine
