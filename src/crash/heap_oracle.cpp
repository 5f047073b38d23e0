#include "crash/heap_oracle.h"

#include <algorithm>

#include "crash/map_model.h"
#include "crash/report.h"

namespace perdure::crash {
namespace {

constexpr unsigned operations_after_a_run = 4096;
constexpr unsigned operations_at_a_time = 64;  // of which each has a budget of steps
constexpr std::size_t operations_kept = 16;    // for the counterexample
constexpr std::uint64_t programs_between = 8;

/// An index may hold this many times what a new one does.
constexpr std::uint64_t most_times = 3;
/// And, whatever a new one does, so much: a structure that grows doubles its largest part.
constexpr std::uint64_t spare_bytes = 8192;
/// It may be refused room where a new one holds this many times the records.
constexpr std::uint64_t most_times_records = 4;

bool stores(const Event& event) {
  return event.kind == Event::Kind::store || event.kind == Event::Kind::stream;
}

/// The first store to the block since `operation` was called; or an event that is none.
std::uint32_t first_store_to(const Heap::Extent& block, BlockHistory::Operation operation,
                             const Trace& trace) {
  bool called = !operation;
  for (std::uint32_t i = 0; i < trace.size(); ++i) {
    const Event& event = trace[i];
    called = called || (event.kind == Event::Kind::call && event.at == *operation);
    if (called && stores(event) && event.at >= block.offset &&
        event.at < block.offset + block.bytes)
      return i;
  }
  return ~0U;
}

}  // namespace

HeapOracle::HeapOracle(const Case& what, Bench& bench, const Vocabulary& vocabulary,
                       Instance& instance, const Recorded& run)
    : what_(what), bench_(bench), vocabulary_(vocabulary), instance_(instance), run_(run) {}

std::optional<Violation> HeapOracle::ask(const BlockHistory* noted) {
  std::string wrong = ask_blocks(noted);
  if (wrong.empty() && is_asked_for_slots()) wrong = ask_slots();
  if (wrong.empty()) return std::nullopt;
  return Violation{.oracle = heap_oracle,
                   .what = std::move(wrong),
                   .event = static_cast<std::uint32_t>(run_.trace.size()),
                   .fails_without_loss = true,
                   .continued = std::move(continued_),
                   .blocks = std::move(blocks_)};
}

/// On the live pool, whose recorder finds out whether it ends. False: it does not.
bool HeapOracle::alone(const std::function<void()>& work) {
  const std::span<std::byte> memory = instance_.memory();
  Recorder recorder(
      memory.data(), memory.size(),
      {.threads = 1, .schedule = {.software = what_.schedule.software}, .mutation = {}});
  hung_ = recorder.run([&](unsigned) { work(); }).hung;
  return !hung_;
}

// A recovery on a copy says what is reachable.
std::string HeapOracle::ask_blocks(const BlockHistory* noted) {
  if (!alone([&] { instance_.quiesce(); })) return "to wait for what is retired does not end";
  const std::uint64_t live = instance_.usage().live_blocks;
  std::uint64_t reached = 0;
  std::string problem;
  std::vector<Heap::Extent> extents;
  Image& image = bench_.image();
  image.load(instance_.memory().data());
  bench_.watch().mutate({});
  image.mark();
  Recovered recovered;
  const Ending ending = bench_.watch().run([&] {
    recovered = recover(what_.subject, vocabulary_, image.memory());
    problem = recovered.absent ? "the index is gone" : recovered.problem;
    if (!recovered.instance) return;
    if (recovered.instance->is_recovering()) recovered.instance->quiesce();
    reached = recovered.instance->usage().live_blocks;
    if (reached != live && noted != nullptr) extents = recovered.instance->live_extents();
    recovered.instance.reset();
  });
  image.undo();
  if (ending != Ending::returned) {
    static_cast<void>(recovered.instance.release());  // it cannot be destroyed: see Watch::run
    problem = name_of(ending);
  }
  if (!problem.empty()) return "a recovery of what the run left: " + problem;
  wants_history_ = reached != live && noted == nullptr;
  if (reached == live || noted == nullptr)
    return tell_difference(what_.subject, live, reached, {}, {});
  blocks_ = differing_blocks(instance_.live_extents(), extents);
  for (FaultyBlock& faulty : blocks_) {
    faulty.reserved_by = noted->of(faulty.block.offset);
    faulty.first_store = first_store_to(faulty.block, faulty.reserved_by, run_.trace);
  }
  return tell_difference(what_.subject, live, reached, blocks_, [&](std::uint32_t operation) {
    return show(run_.operations[operation], vocabulary_);
  });
}

/// Where the heap has refused, and of every so many programs.
bool HeapOracle::is_asked_for_slots() const {
  if (what_.program.universe % programs_between == 5) return !what_.only_threads;
  return std::ranges::any_of(run_.answers, [](const Answer& answer) {
    return answer.returned && answer.outcome == Outcome::out_of_space;
  });
}

std::string HeapOracle::ask_slots() {
  const Room fresh = room_of_a_new_one();
  if (fresh.records == 0) return {};
  if (std::string wrong = go_on(fresh.records); !wrong.empty() || hung_) return wrong;
  const std::uint64_t bytes = instance_.usage().live_bytes;
  const std::uint64_t most = most_times * fresh.bytes + spare_bytes;
  if (!fresh.all || bytes <= most) return {};
  return "slots are lost: it holds " + std::to_string(bytes) + " bytes for " +
         std::to_string(instance_.size()) + " records after " +
         std::to_string(operations_after_a_run) +
         " more operations on the same keys; a new index " + "holds all " +
         std::to_string(fresh.records) + " of them in " + std::to_string(fresh.bytes);
}

std::string HeapOracle::go_on(std::uint64_t records_of_a_new_one) {
  std::string wrong;
  std::vector<std::uint64_t> stamps;
  if (!alone([&] { wrong = instance_.contents(stamps); }) || !wrong.empty()) return wrong;
  MapModel map(vocabulary_, std::move(stamps));
  Rng rng(what_.program.universe, 13);
  const auto one = [&](unsigned number) {
    if (continued_.size() == operations_kept) continued_.erase(continued_.begin());
    const Operation operation = draw_operation(rng, vocabulary_.keys(), number);
    continued_.push_back({operation, {}});
    const Answer& answer = continued_.back().answer = instance_.perform(operation);
    wrong = map.take(operation, answer);
    if (wrong.empty() && answer.outcome == Outcome::out_of_space &&
        most_times_records * map.records() < records_of_a_new_one)
      wrong = show(operation, vocabulary_) + " is refused for want of room with " +
              std::to_string(map.records()) + " records; a new index in such a pool holds " +
              std::to_string(records_of_a_new_one);
  };
  for (unsigned number = 0; number < operations_after_a_run && wrong.empty();) {
    const unsigned end = number + operations_at_a_time;
    const auto some = [&] {
      for (; number < end && wrong.empty(); ++number) one(number);
    };
    if (!alone(some)) return show(continued_.back().operation, vocabulary_) + " does not end";
  }
  if (wrong.empty()) {
    if (!alone([&] {
          instance_.quiesce();
          wrong = instance_.contents(stamps);
        }))
      return "to wait for what is retired, or a scan, does not end";
    if (wrong.empty()) wrong = map.compare(stamps);
    if (wrong.empty()) continued_.clear();
  }
  return wrong.empty() ? wrong
                       : "many operations after the run, of which the last are shown: " + wrong;
}

HeapOracle::Room HeapOracle::room_of_a_new_one() const {
  Room room;
  const Memory memory(what_.subject.pool_bytes);
  std::unique_ptr<Instance> instance;
  const Ending ending = bench_.watch().run([&] {
    auto made = start_new(what_.subject, vocabulary_, memory);
    if (!made) return;
    instance = std::move(made).value();
    if (!instance->perform({.action = Action::create}).wrong.empty()) return;
    room.all = true;
    for (std::uint16_t key = 0; key < vocabulary_.keys(); ++key) {
      const Answer answer = instance->perform(
          {.action = Action::insert, .key = key, .stamp = std::uint64_t{key} + 1});
      const bool added = answer.outcome == Outcome::ok;
      room.records += added ? 1 : 0;
      room.all = room.all && added;
    }
    instance->quiesce();
    room.bytes = instance->usage().live_bytes;
    instance.reset();
  });
  if (ending == Ending::returned) return room;
  static_cast<void>(instance.release());
  return {};
}

}  // namespace perdure::crash
