#include <algorithm>
#include <array>
#include <limits>

#include "cli/crash_flags.h"
#include "crash/subject.h"
#include "pool/slab_heap.h"

namespace perdure::cli {
namespace {

constexpr double endless_seconds = 1e7;
constexpr std::uint64_t most_chunks = 2048;
constexpr auto most_states = std::numeric_limits<std::uint64_t>::max();

void declare_subject(FlagTable& table, CrashFlags& flags) {
  using crash::Domain;
  crash::Plan& plan = flags.plan;
  table.add("--index", text(), flags.index,
            "a persistent index or queue, or toy:DEFECT[:repaired]");
  table.add_repeated("--option", text("options"), flags.options,
                     "name=value, an option of the index (small nodes)");
  table.add("--heap", one_of(std::array{HeapKind::slab, HeapKind::pmdk}), plan.subject.heap,
            "slab (default) or pmdk (libpmemobj itself is trusted)");
  table.add("--domain", one_of(std::array{Domain::adr, Domain::eadr}), plan.domain,
            "adr (default) or eadr");
  table.add("--key-kind", one_of(std::array{KeyKind::integer, KeyKind::bytes, KeyKind::slots}),
            plan.key_kind,
            "integer, bytes or slots; default: the first of these that the index has");
}

void declare_exploration(FlagTable& table, CrashFlags& flags) {
  crash::Plan& plan = flags.plan;
  table.add("--threads", count(1, 8), plan.threads,
            "1 to 8 (one; without the flag some programs have two or six)");
  table.add("--ops", count(1, 10'000), plan.operations,
            "operations of one program, over all threads (24)");
  table.add("--batch", count(1, 64), plan.batch,
            "of one kind in one call, at most: insert_batch, lookup_batch and so on (1)");
  table.add("--keys", count(1, 4096), plan.keys, "keys of one program (32)");
  table.add("--preload", count(0, 4096), plan.preload,
            "keys inserted before the explored part (12)");
  table.add("--seed", count(), plan.seed,
            "the same seed gives the same programs and schedules (1)");
  table.add("--budget", number(0, endless_seconds), plan.seconds,
            "seconds (10; with --states alone there is no such end)");
  table.add("--states", count(1, most_states), plan.most_states,
            "stop after so many states, or when the budget is spent");
  table.add("--transactions", one_of<bool>({{"on", true}, {"off", false}}), plan.transactions,
            "off (default) or on: hardware transactions, the elided paths of the index");
  table.add("--room", count(0, most_chunks), flags.room,
            "chunks of 64 KiB of the slab heap that a pool has beside what a new index takes: "
            "few are soon full (a pool of 1 MiB)");
}

void declare_results(FlagTable& table, CrashFlags& flags) {
  table.add("--out", text(), flags.out, "where to write the replay file of a finding");
  table.add("--replay", text(), flags.replay, "show a finding again, step by step");
  table.add("--mutate", text(), flags.mutate,
            "leave out each flush and fence of this index in turn");
  table.add("--place", text(), flags.place,
            "with --mutate: only those at places like this, FILE:LINE in FUNCTION or a part of it");
  table.add_switch("--reorder", flags.plan.bounds.reorder,
                   "the compiler may reorder plain stores to one line (atomic ones never)");
  table.add_switch("--smells", flags.smells, "report needless flushes and fences, too");
  table.add_switch("--json", flags.json, "as JSON");
  table.add_switch("-q,--quiet", flags.quiet, "no progress on stderr");
}

Result<void> choose_options(const CrashFlags& flags, crash::Plan& plan) {
  plan.subject.options = crash::small_options(plan.subject.declared());
  const auto checked = plan.subject.parse(flags.options);
  if (!checked) return checked.error();
  for (const std::string& pair : flags.options) {
    const std::string option = pair.substr(0, pair.find('='));
    plan.subject.options.set(option, checked->get(option));
    plan.chosen.options.push_back(option);
  }
  if (plan.subject.heap == HeapKind::pmdk && plan.subject.options.pool_parts() > 1)
    return Error{ErrorCode::unsupported, "libpmemobj's heap lies in one pool",
                 "--option node_pools", "give --heap slab"};
  return {};
}

Result<void> choose_kind(const CrashFlags& flags, const std::string& name, crash::Plan& plan) {
  if (plan.subject.is_queue()) {
    if (!flags.table.given("--key-kind")) return {};
    return usage("'" + name + "' is a queue and has no keys", "--key-kind", "leave it out");
  }
  const IndexInfo& index = *plan.subject.info;
  for (const KeyKind kind : {KeyKind::slots, KeyKind::bytes, KeyKind::integer})
    if (!flags.table.given("--key-kind") && index.recovers(kind)) plan.key_kind = kind;
  if (index.recovers(plan.key_kind)) return {};
  return usage("'" + name + "' has no " + name_of(plan.key_kind) + " keys", "--key-kind",
               "give another, see `list indexes`");
}

/// The heap and the size of the pool.
void choose_heap(crash::Plan& plan) {
  if (std::ranges::equal(plan.subject.heaps(), std::array{HeapKind::pmdk}))
    plan.subject.heap = HeapKind::pmdk;
  if (plan.subject.heap != HeapKind::pmdk) return;
  // To open a pool of libpmemobj takes milliseconds: fewer states of a point or a recovery.
  plan.subject.pool_bytes = Pool::min_pool_bytes;
  plan.bounds.product = 16;
  plan.bounds.recrash_states = 8;
}

/// What ends the exploration, and how full the pool is.
Result<void> choose_sizes(const CrashFlags& flags, crash::Plan& plan) {
  const FlagTable& table = flags.table;
  if (plan.seconds <= 0)
    return usage("there is no time to explore", table.written("--budget"), "give more than 0");
  if (table.given("--states") && !table.given("--budget")) plan.seconds = endless_seconds;
  plan.chosen.threads = table.given("--threads");
  plan.chosen.operations = table.given("--ops");
  plan.chosen.keys = table.given("--keys");
  plan.chosen.preload = table.given("--preload");
  plan.chosen.pool = table.given("--room");
  if (plan.subject.is_queue() && table.given("--batch"))
    return usage("a queue has no batches", table.written("--batch"), "leave it out");
  if (!plan.chosen.pool) return {};
  if (plan.subject.heap != HeapKind::slab)
    return usage("only the slab heap's chunks can be few", "--room", "give --heap slab");
  plan.subject.pool_bytes =
      crash::least_pool_bytes(plan.subject, plan.key_kind) + flags.room * SlabHeap::chunk_bytes;
  return {};
}

}  // namespace

CrashFlags::CrashFlags() {
  declare_subject(table, *this);
  declare_exploration(table, *this);
  declare_results(table, *this);
}

Result<crash::Plan> plan_of(const CrashFlags& flags) {
  crash::Plan plan = flags.plan;
  const std::string& name = flags.mutate.empty() ? flags.index : flags.mutate;
  if (flags.mutate.empty() && !flags.place.empty())
    return usage("only mutants have a place", "--place", "give --mutate INDEX");
  if (name.empty()) return usage("no index is given", "--index", "give one, see `list indexes`");
  const auto found = crash::find_subject(name);
  if (!found) return found.error();
  plan.subject.info = found->info;
  plan.subject.queue = found->queue;
  if (auto chosen = choose_kind(flags, name, plan); !chosen) return chosen.error();
  choose_heap(plan);
  if (plan.subject.is_queue() && !plan.subject.queue->works_on(plan.subject.heap))
    return Error{ErrorCode::unsupported, "'" + name + "' needs a pool with another heap", "--heap",
                 "give --heap slab"};
  if (auto chosen = choose_options(flags, plan); !chosen) return chosen.error();
  if (auto chosen = choose_sizes(flags, plan); !chosen) return chosen.error();
  return plan;
}

}  // namespace perdure::cli
