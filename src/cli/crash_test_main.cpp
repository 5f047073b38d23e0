// main of a crash test: explores every index and queue that its program registers, under both
// domains, with one thread and with two. What `perdure_add_crash_test` links.
//
// Without --index, --replay or --mutate every kind of key, domain and number of threads is explored
// in turn that no flag chooses; the first violation ends it. With one of them it is `perdure
// crash`.
#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "driver/interrupt.h"
#include "index/registry.h"
#include "lockfree/base/queue_registry.h"

namespace {

using perdure::IndexInfo;
using perdure::KeyKind;
using perdure::cli::Arguments;

bool gives(const Arguments& arguments, std::string_view flag) {
  return std::ranges::any_of(arguments, [&](const std::string& each) {
    return each == flag || each.starts_with(std::string(flag) + "=");
  });
}

/// `values` for a flag, or one empty text where the caller has chosen.
std::vector<std::string> values_of(const Arguments& given, const char* flag,
                                   std::vector<std::string> values) {
  return gives(given, flag) ? std::vector<std::string>{""} : values;
}

std::vector<std::string> kinds_of(const IndexInfo& info) {
  std::vector<std::string> kinds;
  for (const KeyKind kind : {KeyKind::integer, KeyKind::bytes, KeyKind::slots})
    if (info.recovers(kind)) kinds.emplace_back(perdure::name_of(kind));
  return kinds;
}

/// `kinds`: of keys; one empty text where there are none.
int explore(const std::string& name, const std::vector<std::string>& kinds,
            const Arguments& given) {
  for (const std::string& kind : values_of(given, "--key-kind", kinds))
    for (const std::string& domain : values_of(given, "--domain", {"adr", "eadr"}))
      for (const std::string& threads : values_of(given, "--threads", {"1", "2"})) {
        Arguments arguments = given;
        const auto choose = [&](const char* flag, const std::string& value) {
          if (!value.empty()) arguments.insert(arguments.end(), {flag, value});
        };
        choose("--index", name);
        choose("--key-kind", kind);
        choose("--domain", domain);
        choose("--threads", threads);
        const int code = perdure::cli::crash_command(arguments);
        if (code != 0) return code;
      }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  perdure::cli::explain_sudden_ends();
  const perdure::driver::Unfinished unfinished;
  const Arguments given(argv + 1, argv + argc);
  for (const char* flag : {"--index", "--replay", "--mutate", "--help", "-h"})
    if (gives(given, flag)) return perdure::cli::crash_command(given);
  bool any = false;
  for (const IndexInfo& info : perdure::IndexRegistry::all()) {
    if (info.index_class != perdure::IndexClass::persistent) continue;
    any = true;
    if (const int code = explore(info.full_name(), kinds_of(info), given); code != 0) return code;
  }
  for (const perdure::QueueInfo& info : perdure::QueueRegistry::all()) {
    if (info.recover == nullptr) continue;
    any = true;
    if (const int code = explore(info.full_name(), {""}, given); code != 0) return code;
  }
  if (any) return 0;
  return perdure::cli::report(
      {perdure::ErrorCode::usage, "no persistent index or queue is registered", argv[0],
       "register yours with PERDURE_REGISTER_INDEX or PERDURE_REGISTER_QUEUE"});
}
