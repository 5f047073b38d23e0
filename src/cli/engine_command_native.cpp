#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/engine_export.h"
#include "cli/engine_pool.h"
#include "cli/flags.h"
#include "core/units.h"
#include "engine/store/document_store.h"

namespace perdure::cli {
namespace {

using engine::Finding;

constexpr const char* engine_remedy =
    "give check, export or replay; `perdure engine check --help` shows its flags";

/// What `check` has found in a pool.
struct Examination {
  std::string path;
  std::uint64_t documents = 0;
  engine::StoreUsage usage{};
  std::vector<Finding> findings{};
  std::string digest{};  ///< of a pool in which nothing is wrong
};

std::string text_of(const Examination& examination) {
  std::string text;
  for (const Finding& finding : examination.findings) {
    text += examination.path + ": ";
    if (finding.id != 0) text += "record " + std::to_string(finding.id) + ": ";
    text += finding.what + "\n";
  }
  const std::size_t findings = examination.findings.size();
  text += examination.path + ": " + std::to_string(examination.documents) + " documents, " +
          format_bytes(examination.usage.live_bytes) + " live, " +
          (findings == 0 ? "nothing is wrong" : std::to_string(findings) + " findings") + "\n";
  return text;
}

std::string json_of(const Examination& examination) {
  using Json = nlohmann::ordered_json;
  auto findings = Json::array();
  for (const Finding& finding : examination.findings)
    findings.push_back({{"record", finding.id}, {"what", finding.what}});
  return json_text(
      {{"pool", examination.path},
       {"documents", examination.documents},
       {"live_bytes", examination.usage.live_bytes},
       {"segment_bytes", examination.usage.segment_bytes},
       {"digest", examination.digest.empty() ? Json(nullptr) : Json(examination.digest)},
       {"findings", std::move(findings)}});
}

int print_examination(const Examination& examination, bool json) {
  const int printed = print_result(json ? json_of(examination) : text_of(examination));
  if (printed != exit_ok) return printed;
  return examination.findings.empty() ? exit_ok : exit_violation;
}

int check(const Arguments& arguments) {
  FlagTable table("engine check",
                  "Recovers a pool's documents, then reads them all: records against their "
                  "checksums, the index against the records. Exit code 5: something is wrong.");
  std::vector<std::string> words;
  std::uint64_t most = 1000;
  EnginePoolOptions options;
  bool json = false;
  table.add_words("POOL", words, "the pool's file; no server may have it open");
  table.add("--most", count(1), most, "findings after which it stops (1000)");
  table.add("--threads", count(1, pm::max_workers), options.threads, "that recovery may use (1)");
  table.add_switch("--json", json, "as JSON");
  if (const auto code = table.read(arguments)) return *code;
  if (words.size() != 1) return report(usage("checks one pool", "engine check", "give its path"));
  options.path = words.front();
  Examination examination{.path = options.path};
  auto pool = EnginePool::open(options);
  // What recovery cannot read is what was asked for.
  if (!pool && pool.error().code == ErrorCode::corrupt) {
    examination.findings.push_back({pool.error().what, 0});
    return print_examination(examination, json);
  }
  if (!pool) return report(pool.error());
  examination.documents = (*pool)->engine().store().size();
  examination.usage = (*pool)->engine().usage();
  examination.findings = (*pool)->engine().check(static_cast<std::size_t>(most));
  if (json && examination.findings.empty())
    if (const auto digest = engine::digest_of((*pool)->engine().store()))
      examination.digest = digest->text();
  const int code = print_examination(examination, json);
  if (const auto closed = (*pool)->close(); !closed) return report(closed.error());
  return code;
}

}  // namespace

int engine_command(const Arguments& arguments) {
  if (arguments.empty()) return report(usage("does not say what to do", "engine", engine_remedy));
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (arguments.front() == "check") return check(rest);
  if (arguments.front() == "export") return export_documents(rest);
  if (arguments.front() == "replay") return replay_command(rest);
  return report(usage("there is no '" + arguments.front() + "'", "engine", engine_remedy));
}

}  // namespace perdure::cli
