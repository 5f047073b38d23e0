// structure_ratios: the structures in DRAM beside the standard library's containers with the same
// slots, and transactions beside one written by hand; in one run, round by round in turn, and each
// in a process of its own: what another has freed would be its memory otherwise.
#include <libpmemobj.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "index/registry.h"
#include "pm/pm.h"
#include "structure/memory/slot.h"
#include "workload/stream.h"
#include "workload/workload.h"

namespace perdure::bench {
namespace {

using structure::Slot;
using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    "Usage: structure_ratios [RECORDS [OPERATIONS [ROUNDS [FOLDER [NAME...]]]]]\n"
    "  by default 1000000 1000000 5 /dev/shm and all names; workload B: 90 % updates, 10 % "
    "inserts, "
    "zipfian 0.99\n";

struct Settings {
  std::uint64_t records = 1'000'000;
  std::uint64_t operations = 1'000'000;
  unsigned rounds = 5;
  std::string folder = "/dev/shm";
  std::vector<std::string> names{};  ///< of contestants; none: all
};

/// A container of the standard library as an index: the same slots, and no lock, as one thread
/// needs none.
template <class Map>
class Container final : public SlotIndex {
 public:
  Outcome insert(std::uint64_t key, std::string_view value) override {
    const auto [place, added] = map_.try_emplace(key);
    if (!added) return Outcome::exists;
    place->second.write(value);
    return Outcome::ok;
  }
  Outcome update(std::uint64_t key, std::string_view value) override {
    const auto place = map_.find(key);
    if (place == map_.end()) return Outcome::not_found;
    place->second.write(value);
    return Outcome::ok;
  }
  Outcome lookup(std::uint64_t key, std::string& value) override {
    const auto place = map_.find(key);
    if (place == map_.end()) return Outcome::not_found;
    value.assign(place->second.value());
    return Outcome::ok;
  }
  Outcome upsert(std::uint64_t, std::string_view) override { return Outcome::invalid; }
  Outcome remove(std::uint64_t) override { return Outcome::invalid; }
  std::size_t scan(std::uint64_t, std::size_t, SlotScan&) override { return 0; }
  Result<void> bulk_load(std::span<const SlotRecord>) override { return {}; }
  [[nodiscard]] std::uint64_t size() const override { return map_.size(); }
  [[nodiscard]] Result<void> check_invariants() const override { return {}; }
  [[nodiscard]] std::uint64_t dram_bytes() const override { return 0; }

 private:
  Map map_;
};

struct Contestant {
  std::string name;
  std::function<Result<std::unique_ptr<SlotIndex>>()> make;
  std::vector<double> rates{};  ///< million operations/s, a round each
  [[nodiscard]] double median() {
    std::ranges::sort(rates);
    return rates[rates.size() / 2];
  }
};

workload::Workload workload_b(const Settings& settings) {
  workload::Workload workload;
  workload.records = settings.records;
  workload.operations = settings.operations;
  workload.value_bytes = 100;
  workload.mix = workload::parse_mix("update=0.9,insert=0.1").value();
  workload.distribution.kind = workload::Distribution::Kind::zipfian;
  return workload;
}

/// Loads, then runs the workload; steps are made outside the timed part. Million operations/s.
Result<double> measure(SlotIndex& index, const workload::Workload& workload) {
  constexpr std::size_t block_steps = 1 << 16;
  workload::SlotBlock block(workload, block_steps, std::size_t{8} << 20);
  workload::LoadStream load(workload, 0, 1);
  const Error failed{ErrorCode::failed, "an operation failed", "", ""};
  while (load.fill(block) != 0)
    for (const workload::SlotStep& step : block.steps())
      if (index.insert(step.key, step.value) != Outcome::ok) return failed;
  workload::OperationStream stream(workload, {});
  stream.begin(0, workload.operations);
  std::chrono::duration<double> active{};
  while (stream.fill(block) != 0) {
    const auto start = Clock::now();
    for (const workload::SlotStep& step : block.steps()) {
      const Outcome outcome = step.operation == workload::Operation::insert
                                  ? index.insert(step.key, step.value)
                                  : index.update(step.key, step.value);
      if (outcome != Outcome::ok) return failed;
    }
    active += Clock::now() - start;
  }
  return static_cast<double>(workload.operations) / active.count() / 1e6;
}

/// `measure` in a child.
Result<double> measure_apart(const Contestant& contestant, const workload::Workload& workload) {
  const Error failed{ErrorCode::failed, "the process of a contestant failed", contestant.name, ""};
  int ends[2];
  if (pipe(ends) != 0) return failed;
  const pid_t child = fork();
  if (child == 0) {
    auto index = contestant.make();
    const Result<double> rate = index ? measure(**index, workload) : index.error();
    if (!rate) std::fprintf(stderr, "structure_ratios: %s\n", rate.error().line().c_str());
    const bool told = rate && write(ends[1], &*rate, sizeof(double)) == sizeof(double);
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  double rate = 0;
  const bool told = child > 0 && read(ends[0], &rate, sizeof rate) == sizeof rate;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return told ? Result<double>(rate) : failed;
}

std::vector<Contestant> contestants_of(const workload::Workload& workload) {
  using HashMap = Container<std::unordered_map<std::uint64_t, Slot>>;
  using TreeMap = Container<std::map<std::uint64_t, Slot>>;
  std::vector<Contestant> list;
  list.push_back({"unordered_map",
                  [] { return Result<std::unique_ptr<SlotIndex>>(std::make_unique<HashMap>()); }});
  list.push_back(
      {"map", [] { return Result<std::unique_ptr<SlotIndex>>(std::make_unique<TreeMap>()); }});
  const std::uint64_t expected = workload.records + workload.operations / 5;
  for (const auto& [structure, option] : {std::pair{"hashtable", "records"},
                                          {"arraylist", "records"},
                                          {"linkedlist", "records"},
                                          {"rbtree", ""},
                                          {"bplustree", ""},
                                          {"btree", ""},
                                          {"btree", "embedded"},
                                          {"skiplist", ""}}) {
    std::vector<std::string> options;
    if (*option != '\0')
      options.push_back(std::string(option) + "=" +
                        (std::strcmp(option, "records") == 0 ? std::to_string(expected) : "1"));
    const bool embedded = std::strcmp(option, "embedded") == 0;
    list.push_back({structure + std::string(embedded ? " embedded" : ""),
                    [structure = std::string(structure), options] {
                      const IndexInfo& info = **IndexRegistry::find(structure + ":dram");
                      IndexPlace place;
                      place.options = *IndexRegistry::options(info, options);
                      place.huge_pages = true;  // where `perdure bench` has them by default
                      place.lock = LockKind::none;
                      return create_index<SlotKeys>(info, place);
                    }});
  }
  return list;
}

/// 0: it does not take part.
double rate_of(std::vector<Contestant>& list, const std::string& name) {
  const auto found = std::ranges::find(list, name, &Contestant::name);
  return found == list.end() ? 0 : found->median();
}

void print(std::vector<Contestant>& list) {
  struct Target {
    const char* name;
    const char* reference;
    double least;
  };
  constexpr Target targets[] = {{"hashtable", "unordered_map", 1.0}, {"rbtree", "map", 1.0},
                                {"bplustree", "rbtree", 1.2},        {"btree", "rbtree", 1.2},
                                {"btree embedded", "rbtree", 1.2},   {"skiplist", "rbtree", 0.6},
                                {"arraylist", "hashtable", 2.0}};
  std::printf("dram, one thread, workload B\n");
  for (Contestant& contestant : list)
    std::printf("  %-16s %8.3f Mop/s\n", contestant.name.c_str(), contestant.median());
  for (const Target& target : targets) {
    const double rates[] = {rate_of(list, target.name), rate_of(list, target.reference)};
    if (rates[0] == 0 || rates[1] == 0) continue;
    const double ratio = rates[0] / rates[1];
    std::printf("  %-16s / %-14s %6.2f  at least %.1f  %s\n", target.name, target.reference, ratio,
                target.least, ratio >= target.least ? "ok" : "MISSED");
  }
}

/// Updates of one hash table: through the structure, and by hand: a record found in a map of the
/// standard library, and the same range of it logged and written. Records of both lie alike.
class TransactionRace {
 public:
  static constexpr std::uint64_t records = 1000;
  struct Element {
    PMEMoid next;
    std::uint64_t key;
    Slot slot;
  };

  static Result<void> run(const Settings& settings) {
    PoolOptions options;
    options.path = settings.folder + "/perdure-ratios-" + std::to_string(getpid()) + ".pool";
    options.heap = HeapKind::pmdk;
    options.bytes = 64 << 20;
    auto pool = Pool::create(options);
    if (!pool) return pool.error();
    const IndexInfo& info = **IndexRegistry::find("hashtable:pmem-trans");
    IndexPlace place;
    place.pool = pool.value().get();
    const std::vector<std::string> sized{"records=" + std::to_string(records)};  // as the map is
    place.options = *IndexRegistry::options(info, sized);
    place.lock = LockKind::none;
    auto index = create_index<SlotKeys>(info, place);
    if (!index) return index.error();
    const std::string value(100, 'v');
    for (std::uint64_t key = 0; key < records; ++key)
      if (index.value()->insert(key, value) != Outcome::ok)
        return Error{ErrorCode::failed, "an insert failed", "", ""};
    std::unordered_map<std::uint64_t, Slot*> slots;
    for (std::uint64_t key = 0; key < records; ++key) {
      Reservation block = place.pool->heap().reserve(sizeof(Element));
      if (!block) return Error{ErrorCode::out_of_space, "the pool is full", "", ""};
      place.pool->heap().publish({&block, 1});
      slots[key] = &place.pool->at<Element>(block.offset)->slot;
    }
    std::vector<double> ours;
    std::vector<double> by_hand;
    for (unsigned round = 0; round < settings.rounds; ++round) {
      ours.push_back(time([&](std::uint64_t key) { index.value()->update(key, value); }));
      auto* const objects = reinterpret_cast<PMEMobjpool*>(place.pool->base());
      by_hand.push_back(time([&](std::uint64_t key) {
        Slot* const slot = slots.find(key)->second;
        TX_BEGIN(objects) {
          pmemobj_tx_add_range_direct(slot, Slot::written_bytes(value));
          slot->write(value);
        }
        TX_END
      }));
    }
    std::ranges::sort(ours);
    std::ranges::sort(by_hand);
    const double mine = ours[ours.size() / 2];
    const double hand = by_hand[by_hand.size() / 2];
    std::printf("pmem-trans, one thread, update of 100 bytes\n");
    std::printf("  hashtable %.0f ns, by hand %.0f ns, as fast: %.2f  at least 1.0  %s\n", mine,
                hand, hand / mine, hand >= mine ? "ok" : "MISSED");
    index.value().reset();
    pool.value().reset();
    unlink(options.path.c_str());
    return {};
  }

 private:
  /// ns per call.
  template <class Work>
  static double time(Work&& work) {
    constexpr std::uint64_t calls = 200'000;
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < calls; ++i) work(i * 7 % records);
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / calls;
  }
};

Result<void> run(const Settings& settings) {
  const workload::Workload workload = workload_b(settings);
  std::vector<Contestant> list = contestants_of(workload);
  if (!settings.names.empty())
    std::erase_if(list, [&](const Contestant& contestant) {
      return std::ranges::find(settings.names, contestant.name) == settings.names.end();
    });
  for (unsigned round = 0; round < settings.rounds; ++round)
    for (std::size_t i = 0; i < list.size(); ++i) {
      Contestant& contestant = list[(i + round) % list.size()];
      const auto rate = measure_apart(contestant, workload);
      if (!rate) return rate.error();
      contestant.rates.push_back(*rate);
    }
  print(list);
  return TransactionRace::run(settings);
}

}  // namespace
}  // namespace perdure::bench

int main(int argc, char** argv) {
  perdure::bench::Settings settings;
  if (argc > 1) settings.records = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) settings.operations = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3) settings.rounds = static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10));
  if (argc > 4) settings.folder = argv[4];
  for (int i = 5; i < argc; ++i) settings.names.emplace_back(argv[i]);
  if (settings.records == 0 || settings.operations == 0 || settings.rounds == 0)
    return std::fputs(perdure::bench::usage, stderr), 2;
  perdure::pm::configure(perdure::pm::Durability::adr);
  const auto done = perdure::bench::run(settings);
  if (!done) return std::fprintf(stderr, "structure_ratios: %s\n", done.error().line().c_str()), 1;
  return 0;
}
