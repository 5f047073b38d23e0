#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/assert.h"
#include "core/suggest.h"

namespace perdure::cli {
namespace {

std::string help_of(const CLI::App& app) {
  return "`perdure-native " + app.get_name() + " --help` shows the flags";
}

Error unknown(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  if (!name.starts_with("-")) return usage("was not expected here", "'" + name + "'", help_of(app));
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options())
    for (const std::string& long_name : option->get_lnames()) names.push_back("--" + long_name);
  return usage("there is no such flag", name, suggestion(name, names, help_of(app)));
}

// CLI11 starts its message with the flag: "--threads: 1 required TEXT missing".
Error mismatch(const CLI::App& app, const std::string& message) {
  const std::string name = message.substr(0, message.find_first_of(": "));
  if (message.find("At Most") != std::string::npos)
    return usage("is given more than once", name, "give it once");
  if (message.find("missing") != std::string::npos || message.find("At least") != std::string::npos)
    return usage("needs a value", name, help_of(app));
  return usage("takes no value", name, help_of(app));
}

// Values are read from the options after parsing, so that the help and unknown flags come first.
bool keep(const CLI::results_t&) { return true; }

}  // namespace

FlagTable::FlagTable(std::string command, std::string purpose)
    : app_(std::make_unique<CLI::App>(std::move(purpose), std::move(command))) {
  app_->allow_extras();
}

FlagTable::~FlagTable() = default;

void FlagTable::add_option(Flag flag) {
  flag.option = app_->add_option(flag.name, CLI::callback_t(keep), flag.help)->type_name("TEXT");
  if (flag.repeats) flag.option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (!group_.empty()) flag.option->group(group_);
  flag.group = group_;
  flags_.push_back(std::move(flag));
}

void FlagTable::add_repeated(const char* name, const Kind<std::string>& kind,
                             std::vector<std::string>& field, const char* help) {
  const auto add = [&field](const std::string& text) -> Result<void> {
    field.push_back(text);
    return {};
  };
  add_option({name, kind.name, kind.choices, help, add, true, true});
}

void FlagTable::add_switch(const char* name, bool& field, const char* help, bool value) {
  const auto is_on = std::make_shared<bool>(false);
  const auto set = [&field, is_on, value](const std::string&) -> Result<void> {
    field = *is_on == value;
    return {};
  };
  Flag flag{name, "switch", {}, help, set};
  flag.option = app_->add_flag(name, *is_on, help);
  if (!group_.empty()) flag.option->group(group_);
  flag.group = group_;
  flag.name.erase(0, flag.name.find("--"));  // "-q,--quiet"
  flags_.push_back(std::move(flag));
}

void FlagTable::add_words(const char* name, std::vector<std::string>& field, const char* help) {
  app_->add_option(name, field, help);
}

std::optional<Error> FlagTable::refusal(const std::vector<std::string>& arguments,
                                        bool& help_printed) {
  // CLI11 takes them last first.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app_->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help();
    help_printed = true;
    return {};
  } catch (const CLI::ArgumentMismatch& failure) {
    return mismatch(*app_, failure.what());
  } catch (const CLI::ParseError& failure) {
    std::string message = failure.what();
    std::ranges::replace(message, '\n', ' ');
    return usage(message, "command line", help_of(*app_));
  }
  const std::vector<std::string> extras = app_->remaining();
  if (!extras.empty()) return unknown(*app_, extras.front());
  if (const auto filled = fill(true); !filled) return filled.error();
  return {};
}

std::optional<int> FlagTable::parse(const std::vector<std::string>& arguments) {
  bool help_printed = false;
  if (const auto error = refusal(arguments, help_printed)) return report(*error);
  return help_printed ? std::optional(exit_ok) : std::nullopt;
}

std::optional<int> FlagTable::read(const std::vector<std::string>& arguments) {
  if (const auto code = parse(arguments)) return code;
  if (const auto assigned = assign(); !assigned) return report(assigned.error());
  return {};
}

Result<void> FlagTable::assign() const { return fill(false); }

Result<void> FlagTable::fill(bool texts) const {
  for (const Flag& flag : flags_) {
    if (flag.is_text != texts) continue;
    for (const std::string& text : flag.option->results())
      if (auto filled = flag.fill(text); !filled) return filled;
  }
  return {};
}

std::vector<std::string> FlagTable::parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (true) {
    const std::size_t comma = text.find(',', from);
    parts.push_back(text.substr(from, comma - from));
    if (comma == std::string::npos) return parts;
    from = comma + 1;
  }
}

const FlagTable::Flag& FlagTable::find(std::string_view name) const {
  const auto found = std::ranges::find(flags_, name, &Flag::name);
  PERDURE_ASSERT(found != flags_.end());
  return *found;
}

bool FlagTable::given(std::string_view name) const { return find(name).option->count() != 0; }

std::string FlagTable::written(std::string_view name) const {
  const Flag& flag = find(name);
  const auto& texts = flag.option->results();
  const bool has_value = !texts.empty() && flag.kind != "switch";
  return std::string(name) + (has_value ? " " + texts.front() : "");
}

std::optional<std::string> FlagTable::first_given(std::string_view group) const {
  for (const Flag& flag : flags_)
    if (flag.group == group && flag.option->count() != 0) return flag.name;
  return {};
}

nlohmann::ordered_json FlagTable::json() const {
  auto list = nlohmann::ordered_json::array();
  for (const Flag& flag : flags_)
    list.push_back({{"command", app_->get_name()},
                    {"name", flag.name},
                    {"kind", flag.kind},
                    {"choices", flag.choices},
                    {"repeats", flag.repeats},
                    {"group", flag.group},
                    {"help", flag.help}});
  return list;
}

}  // namespace perdure::cli
