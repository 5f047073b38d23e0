#include "crash/heap_oracle.h"

#include <algorithm>

#include "crash/report.h"

namespace perdure::crash {
namespace {

constexpr unsigned operations_after_a_run = 4096;
constexpr unsigned operations_at_a_time = 64;  // within the time that a recovery has
constexpr std::size_t operations_kept = 16;    // for the counterexample
constexpr std::uint64_t programs_between = 8;

/// Where none was refused an index may hold this many times what a new one does.
constexpr std::uint64_t most_times = 3;
/// Where room was refused, this many times what a new one does for a record.
constexpr std::uint64_t most_times_a_record = 4;
/// And this much in any case: a structure that grows doubles its largest part.
constexpr std::uint64_t spare_bytes = 8192;

/// The first store to the block since `operation` was called; or an event that is none.
std::uint32_t first_store_to(const Heap::Extent& block, BlockHistory::Operation operation,
                             const Trace& trace) {
  bool called = !operation;
  for (std::uint32_t i = 0; i < trace.size(); ++i) {
    const Event& event = trace[i];
    called = called || (event.kind == Event::Kind::call && event.at == *operation);
    if (called && is_store(event) && event.at >= block.offset &&
        event.at < block.offset + block.bytes)
      return i;
  }
  return ~0U;
}

}  // namespace

HeapOracle::HeapOracle(const Case& what, Workspace& workspace, const Vocabulary& vocabulary,
                       std::unique_ptr<Instance> instance, const Recorded& run)
    : what_(what),
      workspace_(workspace),
      vocabulary_(vocabulary),
      instance_(std::move(instance)),
      run_(run) {}

std::optional<Violation> HeapOracle::ask(const BlockHistory* noted) {
  workspace_.watch().mutate({});
  std::string wrong = ask_blocks(noted);
  if (wrong.empty() && is_asked_for_slots()) wrong = ask_slots();
  if (wrong.empty()) return std::nullopt;
  return Violation{.oracle = Oracle::heap,
                   .what = std::move(wrong),
                   .event = static_cast<std::uint32_t>(run_.trace.size()),
                   .fails_without_loss = true,
                   .continued = std::move(continued_),
                   .block_fault = block_fault_,
                   .blocks = std::move(blocks_)};
}

std::string HeapOracle::guarded(const std::function<void()>& work) {
  const Ending ending = workspace_.watch().run([&] { work(); });
  if (ending == Ending::returned) return {};
  static_cast<void>(instance_.release());
  return name_of(ending);
}

// A recovery of the same pool, which has not been closed, says what is reachable.
std::string HeapOracle::ask_blocks(const BlockHistory* noted) {
  std::uint64_t live = 0;
  std::uint64_t reached = 0;
  std::vector<Heap::Extent> live_extents;
  std::string problem = guarded([&] {
    instance_->quiesce();
    live = instance_->usage().live_blocks;
    if (noted != nullptr) live_extents = instance_->live_extents();
  });
  if (!problem.empty()) return "to wait for what is retired " + problem;
  instance_.reset();
  std::string ended = guarded([&] {
    Recovered recovered = recover(what_.subject, vocabulary_, workspace_.live());
    problem = recovered.absent ? std::string("the ") + what_.subject.noun() + " is gone"
                               : recovered.problem;
    instance_ = std::move(recovered.instance);
    if (!instance_) return;
    if (instance_->is_recovering()) instance_->quiesce();
    reached = instance_->usage().live_blocks;
  });
  if (!ended.empty()) problem = std::move(ended);
  if (!problem.empty()) return "a recovery of what the run left: " + problem;
  block_fault_ = fault_of(live, reached);
  wants_history_ = block_fault_ != BlockFault::none && noted == nullptr;
  if (block_fault_ == BlockFault::none || noted == nullptr)
    return tell_difference(what_.subject, live, reached, {}, {});
  blocks_ = differing_blocks(live_extents, instance_->live_extents());
  for (FaultyBlock& faulty : blocks_) {
    faulty.reserved_by = noted->of(faulty.block.offset);
    faulty.first_store = first_store_to(faulty.block, faulty.reserved_by, run_.trace);
  }
  return tell_difference(what_.subject, live, reached, blocks_, [&](std::uint32_t operation) {
    return show(run_.operations[operation], vocabulary_);
  });
}

/// True where the heap has refused, and for one of some programs; only under its first schedule.
bool HeapOracle::is_asked_for_slots() const {
  if (what_.only_threads) return false;
  if (what_.program.universe % programs_between == 5) return true;
  return std::ranges::any_of(run_.answers, [](const Answer& answer) {
    return answer.returned && answer.outcome == Outcome::out_of_space;
  });
}

std::string HeapOracle::ask_slots() {
  const Room fresh = room_of_a_new_one();
  if (fresh.records == 0) return {};
  bool refused = false;
  if (std::string wrong = go_on(refused); !wrong.empty())
    return "many operations after the run, of which the last are shown: " + wrong;
  continued_.clear();
  if (!refused && !fresh.all) return {};
  const std::uint64_t bytes = instance_->usage().live_bytes;
  const std::uint64_t records = instance_->size();
  const std::uint64_t for_records = (fresh.bytes - fresh.empty_bytes) * records / fresh.records;
  const std::uint64_t most =
      spare_bytes +
      (refused ? fresh.empty_bytes + most_times_a_record * for_records : most_times * fresh.bytes);
  if (bytes <= most) return {};
  return "slots are lost: it holds " + std::to_string(bytes) + " bytes for " +
         std::to_string(records) + " records after " + std::to_string(operations_after_a_run) +
         " more operations on the same keys" + (refused ? ", some of which were refused" : "") +
         "; a new index holds " + std::to_string(fresh.records) + " of them in " +
         std::to_string(fresh.bytes);
}

std::string HeapOracle::go_on(bool& refused) {
  Contents found;
  std::string wrong;
  std::string ended = guarded([&] { wrong = instance_->contents(found); });
  if (!ended.empty() || !wrong.empty()) return "to read all records " + ended + wrong;
  const auto model = model_of(what_.subject, vocabulary_, *instance_, std::move(found));
  Rng rng(what_.program.universe, 13);
  for (unsigned number = 0; number < operations_after_a_run;) {
    const unsigned end = number + operations_at_a_time;
    ended = guarded([&] {
      for (; number < end && wrong.empty(); ++number)
        wrong = go_on_with(model->draw(rng, number), *model, refused);
    });
    if (!ended.empty()) return show(continued_.back().operation, vocabulary_) + " " + ended;
    if (!wrong.empty()) return wrong;
  }
  ended = guarded([&] {
    instance_->quiesce();
    wrong = instance_->contents(found);
  });
  if (!ended.empty()) return "to wait for what is retired, or to read all records, " + ended;
  return wrong.empty() ? model->compare(found) : wrong;
}

std::string HeapOracle::go_on_with(const Operation& operation, Model& model, bool& refused) {
  if (continued_.size() == operations_kept) continued_.erase(continued_.begin());
  continued_.push_back({operation, {}});
  const Answer& answer = continued_.back().answer = instance_->perform(operation);
  refused = refused || answer.outcome == Outcome::out_of_space;
  return model.take(operation, answer);
}

HeapOracle::Room HeapOracle::room_of_a_new_one() {
  Room room;
  const Memory memory(what_.subject.pool_bytes);
  std::unique_ptr<Instance> instance;
  const Ending ending = workspace_.watch().run([&] {
    auto made = start_new(what_.subject, vocabulary_, memory);
    if (!made) return;
    instance = std::move(made).value();
    if (!instance->perform({.action = Action::create}).wrong.empty()) return;
    room.empty_bytes = instance->usage().live_bytes;
    room.all = true;
    for (std::uint16_t key = 0; key < vocabulary_.keys(); ++key) {
      const Answer answer =
          instance->perform({.action = what_.subject.is_queue() ? Action::push : Action::insert,
                             .key = key,
                             .stamp = std::uint64_t{key} + 1});
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
