#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace perdure::cli {

int report(const Error& error) {
  std::string line = error.line();
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::fprintf(stderr, "perdure: %s\n", line.c_str());
  return error.code == ErrorCode::failed ? exit_failed : exit_usage;
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int print_result(const std::string& text) {
  std::cout << text << std::flush;
  if (std::cout.good()) return exit_ok;
  return report({ErrorCode::failed, "the result could not be written", "stdout", ""});
}

}  // namespace perdure::cli
