// index_ratios: indexes beside a B-tree in DRAM, in one run, round by round in turn; with targets,
// memory, recovery time, and each rate beside what the machine's costs predict.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>

#include "contest.h"
#include "costs.h"
#include "index/registry.h"
#include "pm/pm.h"
#include "verdict.h"

namespace perdure::bench {
namespace {

constexpr const char* usage =
    "Usage: index_ratios [--indexes A,B] [--records N] [--operations N] [--rounds N]\n"
    "                    [--folder PATH] [--seed N] [--reference-huge-pages both|on|off]\n"
    "                    [--with arctic] [--batches A,B] [--single-thread] [--json]\n"
    "  --indexes               which ones; by default linetree,fptree,lbtree,utree,dptree,\n"
    "                          pactree,roart,hot,masstree\n"
    "  --reference-huge-pages  whether abslbtree gets huge pages; both (default): two references,\n"
    "                          ratios to the one with huge pages\n"
    "  --with                  arctic: one more, which cargo builds (bench/arctic)\n"
    "  --batches               of these also batches of 32 operations; by default linetree\n";

#ifdef ARCTIC_MISSING
constexpr const char* arctic_missing = ARCTIC_MISSING;
#else
constexpr const char* arctic_missing = nullptr;
#endif

struct Flags {
  ContestPlan plan;
  std::vector<std::string> indexes{"linetree", "fptree", "lbtree", "utree",   "dptree",
                                   "pactree",  "roart",  "hot",    "masstree"};
  std::vector<std::string> batches{"linetree"};
  std::string reference_huge_pages = "both";
  bool with_arctic = false;
  bool two_threads = true;
  bool json = false;
};

/// A count such as 10000000, 10M or 500k.
std::optional<std::uint64_t> count_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (failure != std::errc{}) return std::nullopt;
  if (unit.empty()) return number;
  if (unit == "k" || unit == "K") return number * 1000;
  return unit == "M" ? std::optional(number * 1'000'000) : std::nullopt;
}

/// True when `flag` is a number's flag and `value` was taken.
bool take_number(Flags& flags, std::string_view flag, std::string_view value) {
  const auto number = count_of(value);
  if (!number || *number == 0) return false;
  if (flag == "--records") return flags.plan.records = *number, true;
  if (flag == "--operations") return flags.plan.operations = *number, true;
  if (flag == "--rounds") return flags.plan.rounds = static_cast<unsigned>(*number), true;
  if (flag == "--seed") return flags.plan.seed = *number, true;
  return false;
}

/// The names of a list with commas.
std::vector<std::string> names_of(const char* list) {
  std::vector<std::string> names;
  std::istringstream text(list);
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  return names;
}

std::optional<Flags> parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      flags.json = true;
    } else if (flag == "--single-thread") {
      flags.two_threads = false;
    } else if (i + 1 == argc) {
      return std::nullopt;
    } else if (flag == "--folder") {
      flags.plan.folder = argv[++i];
    } else if (flag == "--indexes") {
      flags.indexes = names_of(argv[++i]);
    } else if (flag == "--batches") {
      flags.batches = names_of(argv[++i]);
    } else if (flag == "--with") {
      flags.with_arctic = argv[++i] == std::string_view("arctic");
      if (!flags.with_arctic) return std::nullopt;
    } else if (flag == "--reference-huge-pages") {
      flags.reference_huge_pages = argv[++i];
    } else if (!take_number(flags, flag, argv[++i])) {
      return std::nullopt;
    }
  }
  const auto& pages = flags.reference_huge_pages;
  if (pages != "both" && pages != "on" && pages != "off") return std::nullopt;
  return flags;
}

/// The reference comes first.
Result<std::vector<Contestant>> contestants_of(const Flags& flags) {
  std::vector<Contestant> list;
  const auto add = [&](std::string name, std::string index, bool huge_pages) {
    Contestant& contestant = list.emplace_back();
    contestant.name = std::move(name);
    contestant.index = std::move(index);
    contestant.huge_pages = huge_pages;
    contestant.batches = std::ranges::find(flags.batches, contestant.index) != flags.batches.end();
  };
  if (flags.reference_huge_pages != "off") add("abslbtree", "abslbtree", true);
  if (flags.reference_huge_pages != "on") add("abslbtree, 4 KiB pages", "abslbtree", false);
  for (const std::string& index : flags.indexes) {
    if (const auto info = IndexRegistry::find(index); !info) return info.error();
    add(index, index, true);
  }
  for (const std::string& index : flags.batches)
    if (const auto info = IndexRegistry::find(index); !info) return info.error();
  if (flags.with_arctic && arctic_missing == nullptr) add("arctic", "arctic", false);
  return list;
}

/// Removes the pools' files, however the run ends.
class Cleanup {
 public:
  explicit Cleanup(const std::vector<Contestant>& contestants) : contestants_(contestants) {}
  ~Cleanup() {
    for (const Contestant& contestant : contestants_)
      if (contestant.pool) unlink(contestant.pool->path().c_str());
  }
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;

 private:
  const std::vector<Contestant>& contestants_;
};

Result<void> run(const Flags& flags) {
  // As large as a pool of this many records, so that a miss costs what it costs there.
  const std::uint64_t footprint = std::max<std::uint64_t>(64ULL << 20, flags.plan.records * 30);
  const MachineCosts costs = measure_costs(footprint);
  auto loop = measure_loop();
  if (!loop) return loop.error();
  auto entered = contestants_of(flags);
  if (!entered) return entered.error();
  std::vector<Contestant>& contestants = entered.value();
  const Cleanup cleanup(contestants);
  for (Contestant& contestant : contestants) {
    std::fprintf(stderr, "loading %s\n", contestant.name.c_str());
    if (auto done = prepare(contestant, flags.plan); !done) return done;
  }
  for (unsigned round = 0; round < flags.plan.rounds; ++round) {
    std::fprintf(stderr, "round %u of %u\n", round + 1, flags.plan.rounds);
    for (unsigned threads = 1; threads <= (flags.two_threads ? 2U : 1U); ++threads)
      if (auto done = run_round(contestants, flags.plan, round, threads); !done) return done;
  }
  for (Contestant& contestant : contestants)
    if (auto done = measure_recovery(contestant, flags.plan); !done) return done;
  auto result = to_json(contestants, flags.plan, costs, loop.value());
  if (flags.with_arctic && arctic_missing != nullptr) result["missing"]["arctic"] = arctic_missing;
  if (flags.json)
    std::printf("%s\n", result.dump(1).c_str());
  else
    print(result);
  if (!flags.json && result.contains("missing"))
    std::printf("arctic: %s\n", result["missing"]["arctic"].get<std::string>().c_str());
  return {};
}

}  // namespace
}  // namespace perdure::bench

int main(int argc, char** argv) {
  const auto flags = perdure::bench::parse(argc, argv);
  if (!flags) return std::fputs(perdure::bench::usage, stderr), 2;
  perdure::pm::configure(perdure::pm::Durability::adr);
  perdure::bench::remove_files_when_interrupted();
  const auto done = perdure::bench::run(*flags);
  if (!done) return std::fprintf(stderr, "index_ratios: %s\n", done.error().line().c_str()), 1;
  return 0;
}
