#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/commands.h"

namespace perdure::cli {

namespace {

int kept_stdout = -1;

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool print_on_stdout(const std::string& text) {
  std::cout << text << std::flush;
  return std::cout.good();
}

// What the library's errors name, and what it is on the command line.
struct Spelling {
  std::string_view library;
  std::string_view flag;
};
constexpr std::array<Spelling, 21> spellings = {{{"PoolOptions::path", "--pool"},
                                                 {"PoolOptions::bytes", "--pool-bytes, --records"},
                                                 {"PoolOptions::heap", "--heap"},
                                                 {"PoolOptions::overwrite", "--force"},
                                                 {"Pool::open", "--reuse"},
                                                 {"Pool::create", "a run without --reuse"},
                                                 {"EngineDirectory::make_room", "--force"},
                                                 {"IndexPlace::options", "--option"},
                                                 {"IndexPlace::lock", "--lock"},
                                                 {"IndexPlace::path", "--pool"},
                                                 {"IndexPlace::pool", "--pool"},
                                                 {"IndexRegistry::find", "--index"},
                                                 {"QueueRegistry::find", "--index"},
                                                 {"QueueRegistry::all", "`perdure list queues`"},
                                                 {"QueuePlace::pool", "--pool"},
                                                 {"IndexRegistry::all", "`perdure list indexes`"},
                                                 {"IndexInfo::mode", "--mode"},
                                                 {"KeyKind::", "--key-kind "},
                                                 {"recover_index", "--reuse"},
                                                 {"create_index", "a run without --reuse"},
                                                 {"the native build", "--target native"}}};

std::string in_flags(std::string line) {
  for (const auto& [library, flag] : spellings)
    for (std::size_t at = 0; (at = line.find(library, at)) != std::string::npos; at += flag.size())
      line.replace(at, library.size(), flag);
  return line;
}

}  // namespace

int report(const Error& error) {
  std::string line = in_flags(error.line());
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::fprintf(stderr, "perdure: %s\n", line.c_str());
  return error.code == ErrorCode::failed ? exit_failed : exit_usage;
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void keep_stdout_for_results() {
  if (kept_stdout >= 0) return;
  std::cout.flush();
  std::fflush(stdout);
  kept_stdout = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (kept_stdout < 0) return;  // it is closed: the result will fail to be written
  if (dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) return;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);  // stderr is closed
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
}

int print_result(const std::string& text) {
  if (kept_stdout >= 0 ? write_all(kept_stdout, text) : print_on_stdout(text)) return exit_ok;
  return report({ErrorCode::failed, "the result could not be written", "stdout", ""});
}

}  // namespace perdure::cli
