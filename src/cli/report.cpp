#include <algorithm>
#include <cstdio>
#include <iostream>

#include "cli/commands.h"

namespace perdure::cli {

int report(const Error& error) {
  std::string line = error.line();
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::fprintf(stderr, "perdure: %s\n", line.c_str());
  return error.code == ErrorCode::failed ? exit_failed : exit_usage;
}

int print_result(const std::string& text) {
  std::cout << text << std::flush;
  if (std::cout.good()) return exit_ok;
  return report({ErrorCode::failed, "the result could not be written", "stdout", ""});
}

}  // namespace perdure::cli
