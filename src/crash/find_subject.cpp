// Subjects by name, and what is known of a subject without an instance of it.
#include <algorithm>
#include <optional>

#include "core/suggest.h"
#include "crash/subject.h"
#include "crash/toys/published_lists.h"
#include "crash/toys/queue_toys.h"
#include "crash/toys/toys.h"

namespace perdure::crash {
namespace {

constexpr std::uint64_t small_node = 4;
constexpr std::uint64_t most_of_a_table = 64;
constexpr std::uint64_t longest_payload = 320;  // that `payload_of` makes, or little more

Error is_not_persistent(const std::string& name) {
  return {ErrorCode::usage, "'" + name + "' is not persistent: it has nothing to recover",
          "--index", "give a persistent index or queue, see `list indexes`"};
}

/// An engine as it was published, of which its registration admits that a power cut tears it: the
/// explorer is to show how.
const IndexInfo* published_engine() {
  static const std::optional<IndexInfo> toy = []() -> std::optional<IndexInfo> {
    const auto found = IndexRegistry::find("pmse:published");
    if (!found) return std::nullopt;  // another project's crash test has no index of ours
    IndexInfo info = **found;
    info.name = "toy:pmse";
    info.mode.clear();
    info.tearing = Tearing::nothing;
    return info;
  }();
  return toy ? &*toy : nullptr;
}

Result<Subject> find_toy(const std::string& name) {
  std::string names;
  if (const IndexInfo* engine = published_engine()) {
    if (engine->name == name) return Subject{.info = engine};
    names = engine->name;
  }
  for (const IndexInfo& toy : toys()) {
    if (toy.name == name) return Subject{.info = &toy};
    if (!toy.name.ends_with(":repaired")) names += (names.empty() ? "" : ", ") + toy.name;
  }
  for (const IndexInfo& toy : published_lists()) {
    if (toy.name == name) return Subject{.info = &toy};
    names += ", " + toy.name;
  }
  for (const QueueInfo& toy : queue_toys()) {
    if (toy.name == name) return Subject{.queue = &toy};
    if (!toy.name.ends_with(":repaired")) names += ", " + toy.name;
  }
  return Error{ErrorCode::usage, "there is no '" + name + "'", "--index", "give one of " + names};
}

}  // namespace

Result<Subject> find_subject(const std::string& name) {
  if (name.starts_with("toy:")) return find_toy(name);
  if (const auto queue = QueueRegistry::find(name)) {
    if ((*queue)->recover == nullptr) return is_not_persistent(name);
    return Subject{.queue = *queue};
  }
  const auto found = IndexRegistry::find(name);
  if (!found) {
    Error error = found.error();
    std::vector<std::string> queues;
    for (const QueueInfo& info : QueueRegistry::all()) queues.push_back(info.full_name());
    error.remedy = suggestion(name, queues, error.remedy);
    return error;
  }
  if ((*found)->index_class != IndexClass::persistent) return is_not_persistent(name);
  return Subject{.info = *found};
}

std::string Subject::full_name() const {
  return is_queue() ? queue->full_name() : info->full_name();
}

std::span<const IndexOption> Subject::declared() const {
  return is_queue() ? queue->options : info->options;
}

Result<IndexOptions> Subject::parse(std::span<const std::string> pairs) const {
  return is_queue() ? QueueRegistry::options(*queue, pairs) : IndexRegistry::options(*info, pairs);
}

std::vector<MediaStruct> Subject::media() const {
  const auto describe = is_queue() ? queue->media : info->media;
  return describe == nullptr ? std::vector<MediaStruct>{} : describe(options);
}

std::span<const HeapKind> Subject::heaps() const { return is_queue() ? queue->heaps : info->heaps; }

bool is_about_nodes(const IndexOption& option) {
  return option.name.ends_with("entries") || option.name.ends_with("buckets") ||
         option.name.ends_with("slots") || option.name.ends_with("capacity");
}

IndexOptions small_options(std::span<const IndexOption> declared) {
  IndexOptions options;
  for (const IndexOption& option : declared) {
    const bool of_payloads = option.name.ends_with("payload_bytes");
    const std::uint64_t wanted =
        is_about_nodes(option)
            ? small_node
            : std::min(option.fallback, of_payloads ? longest_payload : most_of_a_table);
    options.set(option.name, std::clamp(wanted, option.least, option.most));
  }
  return options;
}

}  // namespace perdure::crash
