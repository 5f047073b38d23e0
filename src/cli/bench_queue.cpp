// A run of a queue: which one, its producers and consumers, and the flags that say nothing of it.
#include <algorithm>

#include "cli/bench_steps.h"
#include "core/suggest.h"
#include "driver/queue_payload.h"

namespace perdure::cli {
namespace {

using driver::BenchConfig;
using driver::Parallel;
using driver::QueueRun;

constexpr const char* queue_flags = "Queues";

/// The queue as the driver describes what it measures, with nothing to create.
IndexInfo described(const QueueInfo& queue) {
  IndexInfo info;
  info.name = queue.name;
  info.mode = queue.mode;
  info.title = queue.title;
  info.index_class = queue.index_class;
  info.ordered = false;
  info.native_only = queue.native_only;
  info.options = queue.options;
  for (const HeapKind heap : {HeapKind::slab, HeapKind::pmdk, HeapKind::dram, HeapKind::memkind})
    if (queue.works_on(heap)) info.heaps.push_back(heap);
  return info;
}

/// Why there is no index or queue of that name.
Error unknown(const std::string& name) {
  std::vector<std::string> names;
  std::string modes;
  for (const QueueInfo& queue : QueueRegistry::all()) {
    names.push_back(queue.full_name());
    if (queue.name == name) modes += (modes.empty() ? "" : " or ") + queue.full_name();
  }
  const std::string where = "--index " + name;
  if (!modes.empty()) return usage("a queue is named with its mode", where, "give " + modes);
  // Of an index that no simulation sees the registry says so.
  if (auto found = IndexRegistry::find(name);
      !found && found.error().code == ErrorCode::unsupported)
    return found.error();
  for (const IndexInfo& index : IndexRegistry::all()) names.push_back(index.full_name());
  return usage(
      "there is no such index or queue", where,
      suggestion(name, names, "`perdure list indexes` and `perdure list queues` show them"));
}

/// The first flag that was given and is for indexes only.
std::optional<std::string> flag_of_indexes(const BenchFlags& flags) {
  // The seed, the last flag of its group, draws which operations are timed.
  const auto first = flags.table.first_given("Workload (flags override the file)");
  if (first && *first != "--seed") return first;
  for (const char* const flag :
       {"--threads", "--lock", "--rate", "--arrivals", "--bulk-load", "--answers"})
    if (flags.table.given(flag)) return flag;
  return {};
}

Result<void> check_sides(const BenchFlags& flags) {
  const QueueRun& queue = flags.queue;
  const unsigned threads = queue.producers + queue.consumers;
  if (threads > pm::max_workers)
    return usage("this build has room for " + std::to_string(pm::max_workers) + " threads",
                 "--producers " + std::to_string(queue.producers) + " --consumers " +
                     std::to_string(queue.consumers),
                 "give fewer");
  if (queue.consumers == 0 && !flags.operations)
    return usage("without an end the queue only fills up", "--consumers 0",
                 "add --operations N, N no more than it holds, or a consumer");
  const Parallel parallel = flags.config.parallel;
  if (parallel != Parallel::shared && parallel != Parallel::numa)
    return usage("the threads of a run share its queue", flags.table.written("--parallel"),
                 "leave it out");
  if (flags.config.verify && queue.payload_bytes < driver::least_telling_payload_bytes)
    return usage("too short to tell payloads apart, which --verify needs",
                 "--payload " + std::to_string(queue.payload_bytes), "give 8 bytes or more");
  return {};
}

// Slots are as long as the run's payloads, unless their length was given; also of a reused queue,
// whose options have to be those that it was made with.
void expect_payloads(BenchFlags& flags) {
  const std::string name = driver::payload_bytes_option;
  const auto& declared = flags.config.index.options;
  const auto option = std::ranges::find(declared, name, &IndexOption::name);
  const auto is_given = [&](const std::string& pair) { return pair.starts_with(name + "="); };
  if (option == declared.end() || std::ranges::any_of(flags.options, is_given)) return;
  flags.config.options.set(
      name, std::clamp<std::uint64_t>(flags.queue.payload_bytes, option->least, option->most));
}

}  // namespace

Result<void> choose_queue(BenchFlags& flags, const std::string& name) {
  const auto found = QueueRegistry::find(name);
  if (!found) return unknown(name);
  flags.queue.info = **found;
  flags.config.queue = flags.queue;
  flags.config.index = described(flags.queue.info);
  return {};
}

Result<void> resolve_queue(BenchFlags& flags) {
  BenchConfig& config = flags.config;
  if (!config.queue) {
    if (const auto flag = flags.table.first_given(queue_flags))
      return usage("is for queues, and " + config.index.full_name() + " is none",
                   flags.table.written(*flag), "leave it out; `perdure list queues` shows them");
    return {};
  }
  if (const auto flag = flag_of_indexes(flags))
    return usage("is for indexes, and " + config.index.full_name() + " is a queue",
                 flags.table.written(*flag), "leave it out");
  if (auto checked = check_sides(flags); !checked) return checked;
  expect_payloads(flags);
  config.queue = flags.queue;
  config.threads = flags.queue.producers + flags.queue.consumers;
  config.workload.name = "queue";
  config.workload.records = 0;
  config.workload.mix = workload::Mix::pushes_and_pops();
  return {};
}

}  // namespace perdure::cli
