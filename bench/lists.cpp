// lists: the lock-free lists beside Harris's volatile one, one thread, keys of a range of which
// half is present; half of the operations are lookups, or all. In one run, slices in turn. Printed
// are medians, multiples of `list:harris`, and what the authors' code makes on a machine like
// these.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "index/registry.h"
#include "pm/pm.h"
#include "race.h"

namespace perdure::bench {
namespace {

constexpr const char* usage =
    "Usage: lists [TURNS [OPERATIONS]]\n"
    "  by default 15 turns of 40000 operations each, key ranges of 256 and 1024\n";

struct Settings {
  unsigned turns = 15;
  std::uint64_t operations = 40'000;
};

struct Made {
  std::unique_ptr<Pool> pool{};
  std::unique_ptr<IntegerIndex> list{};
};

Result<Made> make(const IndexInfo& info, std::uint64_t range) {
  Made made;
  IndexPlace place;
  place.options.set("nodes", std::uint64_t{1} << 16);
  if (uses_pool(info.index_class)) {
    PoolOptions options;
    options.heap = HeapKind::dram;
    options.bytes = Pool::min_pool_bytes;
    auto pool = Pool::create(options);
    if (!pool) return pool.error();
    made.pool = std::move(pool).value();
    place.pool = made.pool.get();
  }
  auto list = create_index<IntegerKeys>(info, place);
  if (!list) return list.error();
  made.list = std::move(list).value();
  Rng rng(3);
  for (std::uint64_t present = 0; present < range / 2;)
    present += made.list->insert(mix64(rng.below(range)), 1) == Outcome::ok ? 1 : 0;
  return made;
}

/// Of every four operations `updates` are an insert or a removal, in turn.
double run(IntegerIndex& list, Rng& rng, std::uint64_t range, unsigned updates,
           std::uint64_t operations) {
  std::uint64_t value = 0;
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < operations; ++i) {
    const std::uint64_t key = mix64(rng.below(range));
    if (i % 4 >= updates)
      static_cast<void>(list.lookup(key, value));
    else if (i % 2 == 0)
      static_cast<void>(list.insert(key, i));
    else
      static_cast<void>(list.remove(key));
  }
  return ns_each(start, operations);
}

/// M op/s of the authors' code, one thread, half updates; 0: not published, or not measured.
struct Published {
  const char* list;
  double at_256;
  double at_1024;
};
constexpr Published published[] = {{"list:linkfree", 5.6, 1.8},
                                   {"list:soft", 5.4, 1.7},
                                   {"list:tlog", 2.8, 0.72},
                                   {"list:logfree", 4.2, 0.80}};

Result<void> race_lists(const Settings& settings, std::uint64_t range, unsigned updates) {
  // A run has one durability: the log-free list, which flushes nothing, is told so by fences alone.
  std::vector<Made> made;
  std::vector<Contestant> list;
  for (const IndexInfo& info : IndexRegistry::all()) {
    if (info.name != "list") continue;
    const auto durability = info.needs_eadr ? pm::Durability::eadr : pm::Durability::adr;
    pm::configure(durability);
    auto one = make(info, range);
    if (!one) return one.error();
    made.push_back(std::move(one).value());
    list.push_back({info.full_name(), [&index = *made.back().list, durability, range, updates,
                                       &settings, rng = Rng(7)]() mutable {
                      pm::configure(durability);
                      return run(index, rng, range, updates, settings.operations);
                    }});
  }
  const std::string title =
      std::to_string(range) + " keys, " + std::to_string(25 * updates) + " % updates, one thread";
  race(title.c_str(), list, settings.turns);
  const auto harris = std::ranges::find(list, std::string("list:harris"), &Contestant::name);
  for (const Contestant& one : list) {
    const double multiple = 1 / ratio_of(one, *harris);
    if (updates == 0) {
      verdict((one.name + " by list:harris").c_str(), multiple, 0.95, true);
      continue;
    }
    const auto known = std::ranges::find(
        published, one.name, [](const Published& each) { return std::string(each.list); });
    std::printf("  %-44s %5.2f\n", (one.name + " by list:harris").c_str(), multiple);
    if (known == std::end(published)) continue;
    const double theirs = range == 256 ? known->at_256 : known->at_1024;
    verdict((one.name + " by the authors' " + std::to_string(theirs).substr(0, 4) + " M/s").c_str(),
            1e3 / median_of(one.ns) / theirs, 1.3, true);
  }
  return {};
}

}  // namespace
}  // namespace perdure::bench

int main(int argc, char** argv) {
  perdure::bench::Settings settings;
  if (argc > 1) settings.turns = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  if (argc > 2) settings.operations = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3 || settings.turns == 0 || settings.operations == 0)
    return std::fputs(perdure::bench::usage, stderr), 2;
  for (const std::uint64_t range : {256U, 1024U})
    for (const unsigned updates : {2U, 0U})
      if (const auto done = perdure::bench::race_lists(settings, range, updates); !done)
        return std::fprintf(stderr, "%s\n", done.error().line().c_str()), 1;
  return 0;
}
