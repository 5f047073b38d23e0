// structure_ratios: the structures in DRAM beside the standard library's containers with the same
// slots, and transactions beside one written by hand; in one run, round by round in turn, each in
// its own process, because otherwise it would reuse memory that another has freed.
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
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/rng.h"
#include "index/registry.h"
#include "pm/pm.h"
#include "structure/base/slot.h"
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

/// A container of the standard library as an index: the same slots, without a lock, for one thread.
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

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Contestant {
  std::string name;
  std::function<Result<std::unique_ptr<SlotIndex>>()> make;
  std::vector<double> rates{};  ///< million operations/s, a round each
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
  // Beside the tree that is measured against it.
  list.insert(
      std::ranges::find(list, "rbtree", &Contestant::name),
      {"map", [] { return Result<std::unique_ptr<SlotIndex>>(std::make_unique<TreeMap>()); }});
  return list;
}

/// Median of the ratios of each round: a drift of the machine's speed affects both sides. 0: one of
/// them does not take part.
double ratio_of(const std::vector<Contestant>& list, const char* name, const char* reference) {
  const auto one = std::ranges::find(list, name, &Contestant::name);
  const auto other = std::ranges::find(list, reference, &Contestant::name);
  if (one == list.end() || other == list.end()) return 0;
  std::vector<double> ratios;
  for (std::size_t round = 0; round < one->rates.size(); ++round)
    ratios.push_back(one->rates[round] / other->rates[round]);
  return median_of(ratios);
}

void print(const std::vector<Contestant>& list) {
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
  for (const Contestant& contestant : list)
    std::printf("  %-16s %8.3f Mop/s\n", contestant.name.c_str(), median_of(contestant.rates));
  for (const Target& target : targets) {
    const double ratio = ratio_of(list, target.name, target.reference);
    if (ratio == 0) continue;
    std::printf("  %-16s / %-14s %6.2f  at least %.1f  %s\n", target.name, target.reference, ratio,
                target.least, ratio >= target.least ? "ok" : "MISSED");
  }
}

/// Updates in a hash table, each a transaction: through the structure, with either kind of pointer,
/// and written by hand with libpmemobj's macros. By hand a record is found as the structure finds
/// it, in chains of object ids, or in a map of the standard library that knows every address, which
/// is no search in persistent memory at all. Records of all lie alike.
class TransactionRace {
 public:
  static Result<void> run(const Settings& settings) {
    PoolOptions options;
    options.path = settings.folder + "/perdure-ratios-" + std::to_string(getpid()) + ".pool";
    options.heap = HeapKind::pmdk;
    options.bytes = 64 << 20;
    auto pool = Pool::create(options);
    if (!pool) return pool.error();
    const Result<void> done = race(**pool, settings.rounds * turns_per_round);
    pool.value().reset();
    unlink(options.path.c_str());
    return done;
  }

 private:
  static constexpr std::uint64_t records = 1000;
  static constexpr unsigned turns_per_round = 20;
  struct Element {
    std::uint64_t key;
    PMEMoid next;
    Slot slot;
  };
  struct Contestant {
    std::string name;
    std::function<void()> slice;  ///< `calls` updates
    std::vector<double> ns{};     ///< per call, a slice each
  };

  /// What a program would write: buckets and chains of object ids.
  class Chains {
   public:
    explicit Chains(Pool& pool) : pool_(pool), pool_id_(pmemobj_oid(pool.base()).pool_uuid_lo) {}

    [[nodiscard]] bool fill() {
      heads_ = static_cast<PMEMoid*>(allocate(buckets * sizeof(PMEMoid)));
      if (heads_ == nullptr) return false;
      std::fill_n(heads_, buckets, OID_NULL);
      for (std::uint64_t key = 0; key < records; ++key) {
        auto* const element = static_cast<Element*>(allocate(sizeof(Element)));
        if (element == nullptr) return false;
        PMEMoid& head = heads_[bucket_of(key)];
        element->key = key;
        element->next = head;
        head = {pool_id_, pool_.offset_of(element)};
      }
      return true;
    }
    [[nodiscard]] Slot* find(std::uint64_t key) const {
      for (PMEMoid at = heads_[bucket_of(key)]; !OID_IS_NULL(at);) {
        auto* const element = static_cast<Element*>(pmemobj_direct(at));
        if (element->key == key) return &element->slot;
        at = element->next;
      }
      return nullptr;
    }

   private:
    static constexpr std::uint64_t buckets = records * 4 / 3 + 1;  // as the structure has

    static std::uint64_t bucket_of(std::uint64_t key) { return mix64(key) % buckets; }
    void* allocate(std::uint64_t bytes) {
      Reservation block = pool_.heap().reserve(bytes);
      if (!block) return nullptr;
      pool_.heap().publish({&block, 1});
      return pool_.at<void>(block.offset);
    }

    Pool& pool_;
    std::uint64_t pool_id_;
    PMEMoid* heads_ = nullptr;
  };

  static Result<std::unique_ptr<SlotIndex>> filled_index(Pool& pool, const std::string& offsets,
                                                         std::string_view value) {
    const IndexInfo& info = **IndexRegistry::find("hashtable:pmem-trans");
    IndexPlace place;
    place.pool = &pool;
    place.root_name = "offsets-" + offsets;
    const std::vector<std::string> given{"records=" + std::to_string(records),
                                         "offsets=" + offsets};
    place.options = *IndexRegistry::options(info, given);
    place.lock = LockKind::none;
    auto index = create_index<SlotKeys>(info, place);
    for (std::uint64_t key = 0; index && key < records; ++key)
      if (index.value()->insert(key, value) != Outcome::ok)
        return Error{ErrorCode::out_of_space, "the pool is full", "", ""};
    return index;
  }

  static Result<void> race(Pool& pool, unsigned turns) {
    const std::string value(100, 'v');
    auto ids = filled_index(pool, "0", value);
    if (!ids) return ids.error();
    auto offsets = filled_index(pool, "1", value);
    if (!offsets) return offsets.error();
    Chains chains(pool);
    if (!chains.fill()) return Error{ErrorCode::out_of_space, "the pool is full", "", ""};
    std::unordered_map<std::uint64_t, Slot*> slots;
    for (std::uint64_t key = 0; key < records; ++key) slots[key] = chains.find(key);

    auto* const objects = reinterpret_cast<PMEMobjpool*>(pool.base());
    const auto by_hand = [&](Slot* slot) {
      TX_BEGIN(objects) {
        pmemobj_tx_add_range_direct(slot, Slot::written_bytes(value));
        slot->write(value);
      }
      TX_END
    };
    std::vector<Contestant> list;
    const auto enter = [&](const char* name, auto&& update) {
      list.push_back({name, [update] {
                        for (std::uint64_t i = 0; i < calls; ++i) update(i * 7 % records);
                      }});
    };
    enter("hashtable", [&](std::uint64_t key) { ids.value()->update(key, value); });
    enter("hashtable, offsets", [&](std::uint64_t key) { offsets.value()->update(key, value); });
    enter("by hand", [&](std::uint64_t key) { by_hand(chains.find(key)); });
    enter("by hand, map", [&](std::uint64_t key) { by_hand(slots.find(key)->second); });
    // Short slices in turn, so that a drift of the machine's speed affects all.
    for (unsigned turn = 0; turn < turns; ++turn)
      for (std::size_t i = 0; i < list.size(); ++i) time(list[(i + turn) % list.size()]);
    print(list);
    return {};
  }

  static constexpr unsigned calls = 10'000;
  static void time(Contestant& contestant) {
    const auto start = Clock::now();
    contestant.slice();
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    contestant.ns.push_back(took.count() / calls);
  }
  /// Median over the turns.
  static double times_as_fast(const Contestant& one, const Contestant& other) {
    std::vector<double> ratios;
    for (std::size_t turn = 0; turn < one.ns.size(); ++turn)
      ratios.push_back(other.ns[turn] / one.ns[turn]);
    return median_of(ratios);
  }
  static void print(const std::vector<Contestant>& list) {
    const auto& [ids, offsets, hand, map] = std::tie(list[0], list[1], list[2], list[3]);
    std::printf("pmem-trans, one thread, update of 100 bytes in a transaction each\n");
    for (const Contestant& contestant : list)
      std::printf("  %-20s %6.0f ns\n", contestant.name.c_str(), median_of(contestant.ns));
    const double ratio = times_as_fast(ids, hand);
    std::printf("  hashtable / by hand %.2f  at least 1.0  %s\n", ratio,
                ratio >= 1 ? "ok" : "MISSED");
    std::printf("  hashtable, offsets / by hand %.2f\n", times_as_fast(offsets, hand));
    std::printf("  hashtable / by hand, map %.2f; with offsets %.2f: no search in the pool\n",
                times_as_fast(ids, map), times_as_fast(offsets, map));
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
