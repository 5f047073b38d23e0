#include "cli/commands.h"
#include "cli/flags.h"
#include "driver/environment.h"
#include "pm/pm.h"

namespace perdure::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "unknown";
  if (value.is_array()) {
    std::string joined;
    for (const Json& element : value) joined += (joined.empty() ? "" : " ") + text_of(element);
    return joined.empty() ? "none" : joined;
  }
  if (value.is_object()) {
    std::string joined;
    for (const auto& [name, field] : value.items())
      joined += (joined.empty() ? "" : ", ") + name + " " + text_of(field);
    return joined;
  }
  return value.dump();
}

}  // namespace

int environment_command(const Arguments& arguments) {
  FlagTable table("environment", "Shows the machine: CPU, memory, PM and CXL devices, settings.");
  bool json = false;
  table.add_switch("--json", json, "as JSON");
  if (const auto code = table.read(arguments)) return *code;
  pm::configure(pm::Durability::adr);
  pm::configure_simd(pm::detect_simd_level());
  pm::configure_transactions(pm::TransactionUse::on);  // what there is, not what a run would use
  const Json facts = driver::facts_of(driver::read_environment());
  if (json) return print_result(json_text(facts));
  constexpr std::size_t width = 26;
  std::string text;
  for (const auto& [name, value] : facts.items()) {
    std::string line = name;
    line.resize(width, ' ');
    text += line + text_of(value) + "\n";
  }
  return print_result(text);
}

}  // namespace perdure::cli
