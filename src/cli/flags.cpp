#include "cli/flags.h"

#include <algorithm>
#include <iostream>

#include "core/suggest.h"

namespace perdure::cli {
namespace {

std::string help_of(const CLI::App& app) {
  return "`perdure-native " + app.get_name() + " --help` shows the flags";
}

Error unknown(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  if (!name.starts_with("-"))
    return {ErrorCode::usage, "was not expected here", "'" + name + "'", help_of(app)};
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options())
    for (const std::string& long_name : option->get_lnames()) names.push_back("--" + long_name);
  return {ErrorCode::usage, "there is no such flag", name, suggestion(name, names, help_of(app))};
}

// CLI11 starts its message with the flag: "--threads: 1 required TEXT missing".
Error mismatch(const CLI::App& app, const std::string& message) {
  const std::string name = message.substr(0, message.find_first_of(": "));
  if (message.find("At Most") != std::string::npos)
    return {ErrorCode::usage, "is given more than once", name, "give it once"};
  if (message.find("missing") != std::string::npos || message.find("At least") != std::string::npos)
    return {ErrorCode::usage, "needs a value", name, help_of(app)};
  return {ErrorCode::usage, "takes no value", name, help_of(app)};
}

}  // namespace

Result<Parsed> parse(CLI::App& app, const std::vector<std::string>& arguments) {
  app.allow_extras();
  // CLI11 takes them last first.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return Parsed::help_printed;
  } catch (const CLI::ArgumentMismatch& failure) {
    return mismatch(app, failure.what());
  } catch (const CLI::ParseError& failure) {
    std::string message = failure.what();
    std::ranges::replace(message, '\n', ' ');
    return Error{ErrorCode::usage, message, "command line", help_of(app)};
  }
  const std::vector<std::string> extras = app.remaining();
  if (!extras.empty()) return unknown(app, extras.front());
  return Parsed::ready;
}

Error not_one_of(std::string_view value, std::string_view where,
                 std::span<const std::string> choices) {
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
  return {ErrorCode::usage, "'" + std::string(value) + "' is not known", std::string(where),
          suggestion(value, choices, "give one of " + list)};
}

}  // namespace perdure::cli
