#include "platform/description/description.h"

#include <array>
#include <bit>
#include <cstdio>

#include "core/rng.h"

namespace perdure::platform {

const char* name_of(PersistenceDomain domain) noexcept {
  switch (domain) {
    case PersistenceDomain::adr:
      return "adr";
    case PersistenceDomain::eadr:
      return "eadr";
    case PersistenceDomain::none:
      return "none";
  }
  return "unknown";
}

std::string fingerprint_of(const Platform& platform) {
  // FNV-1a over "section.key=bits" of every field: a field added later changes it, their order does
  // not matter to a reader but is fixed by the table.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  };
  for (const PlatformField& field : platform_fields()) {
    add(field.section);
    add(".");
    add(field.key);
    add("=");
    add(std::to_string(std::bit_cast<std::uint64_t>(field.get(platform) + 0.0)));
  }
  add(name_of(platform.domain));
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx",
                static_cast<unsigned long long>(mix64(hash)));
  return digits.data();
}

nlohmann::ordered_json json_of(const PlatformDescription& description) {
  using Json = nlohmann::ordered_json;
  const Platform& platform = description.platform;
  Json values = Json::array();
  for (const DescribedValue& given : description.values) {
    const PlatformField& field = *given.field;
    const double number = field.get(platform);
    Json value;
    if (field.kind == FieldKind::boolean)
      value = number != 0;
    else if (field.kind == FieldKind::integer)
      value = static_cast<std::uint64_t>(number);
    else
      value = number;
    values.push_back({{"section", std::string(field.section)},
                      {"key", std::string(field.key)},
                      {"value", std::move(value)},
                      {"unit", std::string(field.unit)},
                      {"what", std::string(field.what)},
                      {"source", given.source},
                      {"place", given.place},
                      {"from", given.platform}});
  }
  Json json = {{"name", platform.name},
               {"title", platform.title},
               {"file", description.file.string()},
               {"base", nullptr},
               {"fingerprint", fingerprint_of(platform)},
               {"persistence_domain", name_of(platform.domain)},
               {"cpus", platform.cpus()},
               {"values", std::move(values)}};
  if (!description.base.empty()) json["base"] = description.base;
  return json;
}

}  // namespace perdure::platform
