#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/flags.h"
#include "platform/description/description.h"

namespace perdure::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text + "  ";
}

std::string table_of(const Json& platform) {
  std::string text = platform["name"].get<std::string>() + ": " +
                     platform["title"].get<std::string>() + "\n" +
                     platform["file"].get<std::string>() + ", persistence domain " +
                     platform["persistence_domain"].get<std::string>() + ", " +
                     std::to_string(platform["cpus"].get<unsigned>()) + " CPUs, fingerprint " +
                     platform["fingerprint"].get<std::string>() + "\n";
  if (platform["base"].is_string())
    text += "built on " + platform["base"].get<std::string>() + "\n";
  std::array<std::size_t, 3> widths{};
  for (const Json& value : platform["values"]) {
    widths[0] = std::max(widths[0], value["key"].get_ref<const std::string&>().size());
    widths[1] = std::max(widths[1], value["value"].dump().size());
    widths[2] = std::max(widths[2], value["unit"].get_ref<const std::string&>().size());
  }
  std::string section;
  for (const Json& value : platform["values"]) {
    if (value["section"] != section) {
      section = value["section"].get<std::string>();
      text += "\n[" + section + "]\n";
    }
    text += padded(value["key"].get<std::string>(), widths[0]) +
            padded(value["value"].dump(), widths[1]) +
            padded(value["unit"].get<std::string>(), widths[2]) + value["what"].get<std::string>() +
            " (" + value["source"].get<std::string>();
    if (value["from"] != platform["name"]) text += "; from " + value["from"].get<std::string>();
    text += ")\n";
  }
  return text;
}

}  // namespace

int describe_command(const Arguments& arguments) {
  FlagTable table("describe", "Shows every number of a platform with unit and source.");
  std::vector<std::string> words;
  bool json = false;
  table.add_words("what", words, "platform NAME, or platform FILE.toml");
  table.add_switch("--json", json, "as JSON");
  if (const auto code = table.read(arguments)) return *code;
  if (words.empty() || words.front() != "platform")
    return report({ErrorCode::usage, "does not say what to describe", "describe",
                   "give platform NAME; `perdure list platforms` shows them"});
  if (words.size() != 2)
    return report({ErrorCode::usage, "describes one platform at a time", "describe platform",
                   "give a name (`perdure list platforms` shows them) or the path of a file"});
  const auto description = platform::load_platform(words[1]);
  if (!description) return report(description.error());
  const Json document = platform::json_of(*description);
  return print_result(json ? json_text(document) : table_of(document));
}

}  // namespace perdure::cli
