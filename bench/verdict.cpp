#include "verdict.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "pm/transaction.h"

namespace perdure::bench {
namespace {

using nlohmann::json;

/// What an operation needs at least at ten million records: lines that are in no cache, loaded one
/// after the other or overlapping, and lines made durable, each with its own fence.
struct Account {
  double dependent_misses;
  double independent_misses;
  double persists;
};

/// What is expected of an index: one account and one target a phase, in the order of `phases`.
/// Targets are multiples of `abslbtree` at one thread; 0: none.
struct Expectation {
  std::string_view index;
  std::array<Account, single_phases> account;
  std::array<double, single_phases> target;
};

/// linetree: the lowest inner nodes exceed L2, and in them the child is found after the separators;
///         then the record's line, with what DRAM knows of the leaf. Writes persist that line. A
///         scan reads the 16 lines of its leaves, which hold about 40 of 63 records. Its goals are
///         multiples of others than abslbtree, below.
/// fptree: the lowest inner nodes exceed L2; then the leaf's tags; then the record's line. Leaves
///         hold about 45 of 64 records.
/// lbtree: the two lowest levels of inner nodes exceed L2; the four lines of a leaf
///         overlap. Writes persist lines that are in the cache by then. Leaves hold about 10 of 14.
/// utree:  as lbtree down to the leaf, then the list node. An insertion's new node shares its line
///         with the one before, and persists before the link does. Leaves lead to about 12.5 of 18
///         nodes, whose misses overlap in a scan with that of the next leaf.
/// dptree: a line of the front tree's filter; the lines of the map over 50,000 leaves exceed L2; a
///         leaf's set and one line of fingerprints overlap; with about 50 records in a bucket one
///         operation in five meets a false match of a fingerprint; then the record's line. Changes
///         search there, too, but prefetch the record during the flush, then enter the front tree:
///         700,000 entries, whose leaves and lowest inner nodes exceed L2; two log records share a
///         line. Merges read and write some 100 lines a leaf for 13 changes, in the background. A
///         scan touches most of the 64 lines of records of its leaf, and the log records of 7
///         entries in front and middle each.
/// masstree: as lbtree down to the border node; nodes have five lines, which overlap.
///         Borders hold about 10 of 15 records.
/// pactree: of the trie the small nodes at the bottom exceed L2; then header, tags and the record's
///         line of a data node overlap. Nodes hold about 45 of 64 records, and a scan
///         reads the line of their order besides.
/// roart:  the lowest of three levels of nodes exceeds L2; then the leaf array, of which a lookup
///         reads the lock's line and most often one other, a change all nine; then the record. A
///         new record shares its line with the one before, and persists before its slot does.
///         Arrays lead to about 44 of 64 records, whose misses overlap in a scan.
/// hot:    two levels of nodes exceed L2, the upper one hardly; a node has about four lines, which
///         overlap; then the record. The records of a scan overlap. Nodes hold
///         about 22 of 32 entries. An insertion writes a node as large as the one it replaces, and
///         a record.
constexpr double linetree_leaves = 100.0 / 40;
constexpr double fptree_leaves = 100.0 / 45;
constexpr double lbtree_leaves = 100.0 / 10;
constexpr double utree_leaves = 100.0 / 12.5;
constexpr double roart_arrays = 100.0 / 44;
constexpr double masstree_borders = 100.0 / 10;
constexpr double pactree_nodes = 100.0 / 45;
constexpr double hot_nodes = 100.0 / 22;
constexpr std::array expectations{
    //                      lookup         update        insert           scan            remove
    Expectation{"linetree",
                {{{3, 1, 0},
                  {3, 1, 1},
                  {3, 1, 1},
                  {2 + linetree_leaves, 16 * (linetree_leaves + 0.5), 0},
                  {3, 1, 1}}},
                {}},
    Expectation{
        "fptree",
        {{{3, 0, 0}, {3, 1, 2}, {3, 1, 2}, {1 + fptree_leaves, 17 * fptree_leaves, 0}, {3, 0, 1}}},
        {1.00, 0.75, 0.75, 0.60, 0.75}},
    Expectation{"lbtree",
                {{{2.5, 3, 0},
                  {2.5, 3, 1},
                  {2.5, 3, 1.3},
                  {2.5 + lbtree_leaves, 3 * lbtree_leaves, 0},
                  {2.5, 3, 1}}},
                {1.50, 1.50, 1.35, 0.50, 1.20}},
    Expectation{"utree",
                {{{3.5, 3, 0},
                  {3.5, 3, 1},
                  {3.5, 3, 2},
                  {2.5 + utree_leaves, 3 * utree_leaves + 100, 0},
                  {3.5, 4, 1}}},
                {0.80, 0.60, 0.50, 0.12, 0}},
    Expectation{
        "pactree",
        {{{2, 2, 0}, {2, 2, 1}, {2, 2, 2}, {1 + pactree_nodes, 18 * pactree_nodes, 0}, {2, 2, 1}}},
        {1.10, 0.75, 0.65, 1.00, 0}},
    Expectation{"roart",
                {{{2.5, 1.3, 0},
                  {2.5, 8, 1},
                  {1.5, 8, 2},
                  {1 + 2 * roart_arrays, 8 * roart_arrays + 44 * (roart_arrays + 0.5), 0},
                  {2.5, 8, 1}}},
                {0.80, 0.40, 0.35, 0.25, 0}},
    Expectation{"dptree",
                {{{2.5, 2.2, 0}, {3, 6.2, 1}, {3, 5.6, 1}, {6.5, 85, 0}, {4, 5.2, 1}}},
                {1.40, 1.00, 1.10, 1.00, 0}},
    Expectation{"masstree",
                {{{2.5, 8, 0},
                  {2.5, 8, 0},
                  {2.5, 8, 0},
                  {2.5 + masstree_borders, 4 * masstree_borders + 8, 0},
                  {2.5, 8, 0}}},
                {0.95, 0.90, 1.15, 0.45, 0}},
    Expectation{"hot",
                {{{2.3, 3, 0},
                  {2.3, 3, 0},
                  {2.3, 7, 0},
                  {2.3 + hot_nodes, 3 * hot_nodes + 100, 0},
                  {2.3, 7, 0}}},
                {1.50, 1.10, 1.00, 0.60, 0}}};
static_assert(phases[0] == Phase::lookup && phases[1] == Phase::update &&
              phases[2] == Phase::insert && phases[3] == Phase::scan && phases[4] == Phase::remove);

/// What linetree is to reach with one thread: at least `factor` times the best of `others` in
/// `their_phase`; with two 1.8 times that, beside the others with one.
struct Goal {
  Phase phase;
  double factor;
  std::vector<std::string_view> others;
  Phase their_phase;
};

const std::vector<std::string_view> dram_indexes{"hot",      "masstree",  "artolc",
                                                 "btreeolc", "abslbtree", "arctic"};
const std::vector<std::string_view> all_indexes{"hot",       "masstree", "artolc",  "btreeolc",
                                                "abslbtree", "arctic",   "fptree",  "lbtree",
                                                "utree",     "dptree",   "pactree", "roart"};
const std::vector<Goal> goals{
    {Phase::lookup, 2.0, {"lbtree"}, Phase::lookup},
    {Phase::lookup, 1.5, dram_indexes, Phase::lookup},
    {Phase::lookup_batch, 2.5, {"linetree"}, Phase::lookup},
    {Phase::insert, 1.5, {"lbtree"}, Phase::insert},
    {Phase::insert, 1.0, dram_indexes, Phase::insert},
    {Phase::insert_batch, 1.5, {"linetree"}, Phase::insert},
    {Phase::update, 1.6, {"lbtree"}, Phase::update},
    {Phase::scan, 1.2, all_indexes, Phase::scan},
    {Phase::remove, 1.3, {"lbtree"}, Phase::remove},
};

const Expectation* expectation_of(const std::string& index) {
  const auto* const found = std::ranges::find(expectations, index, &Expectation::index);
  return found == expectations.end() ? nullptr : found;
}

double predicted_ns(const Account& account, const MachineCosts& costs) {
  return account.dependent_misses * costs.dependent_miss_ns +
         account.independent_misses * costs.independent_miss_ns +
         account.persists * costs.persist_warm_ns;
}

double ratio_to(const Contestant* reference, Phase phase, double rate) {
  const double base = reference == nullptr ? 0 : reference->median(phase, 1);
  return base > 0 ? rate / base : 0;
}

/// The references come first: the fairest one (huge pages like ours), and the second, if any.
json cell_of(const Contestant& contestant, const std::vector<Contestant>& all, Phase phase,
             unsigned threads, const MachineCosts& costs) {
  const double rate = contestant.median(phase, threads);
  const Contestant* const second =
      all.size() > 1 && all[1].index == all[0].index ? &all[1] : nullptr;
  json cell{{"operation", name_of(phase)},
            {"threads", threads},
            {"million_ops_s", rate},
            {"rounds_million_ops_s", contestant.rates.at({phase, threads})},
            {"ratio", nullptr},
            {"ratio_to_second", nullptr},
            {"target", nullptr},
            {"measured_ns", rate > 0 ? 1000.0 * threads / rate : 0},
            {"predicted_ns", nullptr}};
  // A reference without batches has no rate to compare with.
  if (all.front().rates.contains({phase, 1})) cell["ratio"] = ratio_to(&all.front(), phase, rate);
  if (second != nullptr && second->rates.contains({phase, 1}))
    cell["ratio_to_second"] = ratio_to(second, phase, rate);
  if (const Expectation* const expected = expectation_of(contestant.index)) {
    const auto place = static_cast<std::size_t>(phase);
    if (place >= single_phases) return cell;
    if (const double target = expected->target[place]; target > 0)
      cell["target"] = threads == 1 ? target : 1.8 * target;
    const Account& account = expected->account[place];
    cell["predicted_ns"] = predicted_ns(account, costs);
    cell["dependent_misses"] = account.dependent_misses;
    cell["independent_misses"] = account.independent_misses;
    cell["persists"] = account.persists;
  }
  return cell;
}

/// A goal beside what was measured; nothing where none of the others took part.
json goal_of(const Goal& goal, const Contestant& ours, const std::vector<Contestant>& all,
             unsigned threads) {
  const Contestant* best = nullptr;
  for (const Contestant& each : all)
    if (std::ranges::find(goal.others, each.index) != goal.others.end() &&
        (best == nullptr || each.median(goal.their_phase, 1) > best->median(goal.their_phase, 1)))
      best = &each;
  if (best == nullptr) return nullptr;
  return {{"index", ours.name},
          {"operation", name_of(goal.phase)},
          {"threads", threads},
          {"other", best->name},
          {"other_operation", name_of(goal.their_phase)},
          {"other_is_best_of", goal.others},
          {"ratio", ratio_to(best, goal.their_phase, ours.median(goal.phase, threads))},
          {"target", threads == 1 ? goal.factor : 1.8 * goal.factor}};
}

json goals_of(const std::vector<Contestant>& all) {
  json rows = json::array();
  for (const Contestant& ours : all) {
    if (ours.index != "linetree") continue;
    for (const unsigned threads : {1U, 2U})
      for (const Goal& goal : goals) {
        if (!ours.rates.contains({goal.phase, threads})) continue;
        if (json row = goal_of(goal, ours, all, threads); !row.is_null())
          rows.push_back(std::move(row));
      }
  }
  return rows;
}

std::string number(const json& value, const char* format) {
  if (value.is_null()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, format, value.get<double>());
  return text;
}

void print_cells(const json& contestant) {
  for (const json& cell : contestant["cells"]) {
    const bool held = cell["target"].is_null() || cell["ratio"] >= cell["target"];
    std::printf(
        "%-24s %-12s %7d %9s %7s %7s %7s %-6s %9s %9s\n",
        contestant["name"].get<std::string>().c_str(), cell["operation"].get<std::string>().c_str(),
        cell["threads"].get<int>(), number(cell["million_ops_s"], "%.3f").c_str(),
        number(cell["ratio"], "%.2f").c_str(), number(cell["ratio_to_second"], "%.2f").c_str(),
        number(cell["target"], "%.2f").c_str(),
        cell["target"].is_null() ? ""
        : held                   ? "held"
                                 : "MISSED",
        number(cell["measured_ns"], "%.0f").c_str(), number(cell["predicted_ns"], "%.0f").c_str());
  }
}

void print_goals(const json& rows) {
  if (rows.empty()) return;
  std::printf("\n%-10s %-13s %7s %7s %7s %-6s  %s\n", "index", "op", "threads", "ratio", "target",
              "", "to, with one thread");
  for (const json& row : rows)
    std::printf(
        "%-10s %-13s %7d %7.2f %7.2f %-6s  %s of %s\n", row["index"].get<std::string>().c_str(),
        row["operation"].get<std::string>().c_str(), row["threads"].get<int>(),
        row["ratio"].get<double>(), row["target"].get<double>(),
        row["ratio"] >= row["target"] ? "held" : "MISSED",
        row["other_operation"].get<std::string>().c_str(), row["other"].get<std::string>().c_str());
}

json transactions_of(const pm::TransactionCounts& counts) {
  return {{"on", pm::transactions_on()},
          {"aborts_conflict", counts.aborts_conflict},
          {"aborts_capacity", counts.aborts_capacity},
          {"aborts_explicit", counts.aborts_explicit},
          {"aborts_other", counts.aborts_other},
          {"sections_left_out", counts.left_out}};
}

void print_transactions(const json& counts) {
  if (!counts["on"].get<bool>()) return;
  std::printf("hardware transactions aborted: %s by conflict, %s capacity, %s a lock, %s other; ",
              counts["aborts_conflict"].dump().c_str(), counts["aborts_capacity"].dump().c_str(),
              counts["aborts_explicit"].dump().c_str(), counts["aborts_other"].dump().c_str());
  std::printf("%s left out after failures\n", counts["sections_left_out"].dump().c_str());
}

}  // namespace

json to_json(const std::vector<Contestant>& contestants, const ContestPlan& plan,
             const MachineCosts& costs, const LoopCost& loop) {
  json result{{"records", plan.records},
              {"operations", plan.operations},
              {"rounds", plan.rounds},
              {"seed", plan.seed},
              {"reference", contestants.front().name},
              {"note", "predicted_ns: misses and persists counted by hand, times machine_ns"},
              {"machine_ns",
               {{"dependent_miss_huge_pages", costs.dependent_miss_ns},
                {"dependent_miss_4k_pages", costs.dependent_miss_4k_ns},
                {"independent_miss", costs.independent_miss_ns},
                {"store_flush_fence_cold", costs.persist_cold_ns},
                {"store_flush_fence_warm", costs.persist_warm_ns}}},
              {"loop_ns", {{"bare", loop.bare_ns}, {"with_histogram", loop.with_histogram_ns}}},
              {"transactions", transactions_of(pm::transaction_counts())},
              {"contestants", json::array()}};
  for (const Contestant& contestant : contestants) {
    json entry{
        {"name", contestant.name},
        {"index", contestant.index},
        {"huge_pages", contestant.huge_pages},
        {"pool_huge_page_bytes", contestant.pool_huge_page_bytes},
        {"load_seconds", contestant.load_seconds},
        {"recovery_seconds", contestant.pool ? json(contestant.recovery_seconds) : json(nullptr)},
        {"settled_seconds", contestant.pool ? json(contestant.settled_seconds) : json(nullptr)},
        {"pm_bytes_per_record", contestant.pm_bytes_per_record},
        {"dram_bytes_per_record", contestant.dram_bytes_per_record},
        {"cells", json::array()}};
    for (const auto& [key, rates] : contestant.rates)
      entry["cells"].push_back(cell_of(contestant, contestants, key.first, key.second, costs));
    result["contestants"].push_back(std::move(entry));
  }
  result["goals"] = goals_of(contestants);
  return result;
}

void print(const json& result) {
  const json& machine = result["machine_ns"];
  std::printf("%s records, medians of %s rounds; ratios to `%s` at one thread\n\n",
              result["records"].dump().c_str(), result["rounds"].dump().c_str(),
              result["reference"].get<std::string>().c_str());
  std::printf(
      "machine: dependent miss %.0f ns (4 KiB pages %.0f), independent %.0f, "
      "store+flush+fence cold %.0f, warm %.0f\n",
      machine["dependent_miss_huge_pages"].get<double>(),
      machine["dependent_miss_4k_pages"].get<double>(), machine["independent_miss"].get<double>(),
      machine["store_flush_fence_cold"].get<double>(),
      machine["store_flush_fence_warm"].get<double>());
  std::printf("loop over `null`: %.1f ns/op, with clock and histogram %.1f\n\n",
              result["loop_ns"]["bare"].get<double>(),
              result["loop_ns"]["with_histogram"].get<double>());
  std::printf("%-24s %-12s %7s %9s %7s %7s %7s %-6s %9s %9s\n", "index", "op", "threads", "Mops/s",
              "ratio", "4 KiB", "target", "", "ns/op", "predicted");
  for (const json& contestant : result["contestants"]) print_cells(contestant);
  print_goals(result["goals"]);
  std::printf("\n%-24s %9s %12s %11s %12s %12s %16s\n", "index", "load s", "recovery s",
              "settled s", "PM B/record", "DRAM B/rec.", "pool on huge p.");
  for (const json& contestant : result["contestants"])
    std::printf("%-24s %9.1f %12s %11s %12.1f %12.2f %13.0f MB\n",
                contestant["name"].get<std::string>().c_str(),
                contestant["load_seconds"].get<double>(),
                number(contestant["recovery_seconds"], "%.4f").c_str(),
                number(contestant["settled_seconds"], "%.2f").c_str(),
                contestant["pm_bytes_per_record"].get<double>(),
                contestant["dram_bytes_per_record"].get<double>(),
                contestant["pool_huge_page_bytes"].get<double>() / 1e6);
  std::printf(
      "ratio: to abslbtree with huge pages, which the targets are held against; 4 KiB: to "
      "abslbtree\n"
      "on the allocator's 4 KiB pages. predicted: misses and fences as the algorithm needs them,\n"
      "counted by hand (verdict.cpp), times what each costs here; operations that overlap with\n"
      "their neighbours come out below it\n");
  print_transactions(result["transactions"]);
  std::printf(
      "recovery: from opening the pool to the first answer; settled: to the end of what recovery "
      "does\nbeside the operations\n");
  std::printf(
      "limits: linetree 24 B PM and 1 B DRAM a record, recovery 0.05 s; fptree 29 and 1.5, lbtree\n"
      "27 and 3.5, utree 34 and 27, dptree 50 and 12, pactree 34 and 2, roart 100 and 2; recovery "
      "of\nfptree and lbtree 1 s\n");
}

}  // namespace perdure::bench
