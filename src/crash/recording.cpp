// Recording: runs a case's program without a cut, or on after its first one, and writes the trace.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "core/assert.h"
#include "crash/case.h"
#include "crash/cut.h"
#include "crash/deviation.h"
#include "crash/heap_oracle.h"
#include "crash/live.h"
#include "crash/names.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

constexpr bool is_followed_by_quiesce(std::uint32_t operation) {
  constexpr std::uint32_t operations_between_quiesces = 3;
  return operation % operations_between_quiesces == 0;
}

/// The operations in the order their numbers name them: creation, preload, then the explored ones.
std::vector<Operation> number(const Program& program) {
  std::vector<Operation> all{{Action::create, 0, 0, 0, 0}};
  all.insert(all.end(), program.preload.begin(), program.preload.end());
  all.insert(all.end(), program.operations.begin(), program.operations.end());
  return all;
}

/// What the trace makes of `content`.
std::vector<std::byte> applied(const Trace& trace, std::vector<std::byte> content) {
  for (const Event& event : trace) {
    if (is_store(event)) std::memcpy(content.data() + event.at, &event.value, event.size);
  }
  return content;
}

/// Whether the pool is, after the run, what the trace makes of it.
std::optional<Violation> unseen_change(const Recorded& run, std::span<const std::byte> pool) {
  const std::vector<std::byte> told = applied(run.trace, run.before);
  if (std::memcmp(pool.data(), told.data(), pool.size()) == 0) return std::nullopt;
  const auto at = std::ranges::mismatch(pool, told).in1;
  return Violation{.oracle = Oracle::hooks,
                   .what = "byte " + std::to_string(at - pool.begin()) +
                           " of the pool is not what the run's hooks tell",
                   .event = static_cast<std::uint32_t>(run.trace.size()),
                   .fails_without_loss = true};
}

/// Of a run that hangs beside a thread that was stopped.
Violation waits_for_stopped(const Recorded& run, const Vocabulary& vocabulary) {
  constexpr std::uint32_t shown = 256;  // events after the last call or return: they go round
  const auto end = static_cast<std::uint32_t>(run.trace.size());
  Violation violation{
      .oracle = Oracle::progress, .what = {}, .event = end, .fails_without_loss = true};
  std::array<std::string, 8> in;
  for (std::uint32_t i = 0; i < end; ++i) {
    const Event& event = run.trace[i];
    if (!is_call_or_return(event)) continue;
    violation.event = std::min(end, i + shown);
    if (event.kind == Event::Kind::ret) std::erase(violation.open, event.at);
    if (event.kind == Event::Kind::call) violation.open.push_back(event.at);
  }
  for (const std::uint32_t open : violation.open)
    in[run.operations[open].thread] = " in " + show(run.operations[open], vocabulary);
  const Stopped& stopped = *run.stopped;
  violation.what = "thread " + std::to_string(stopped.thread) + " is stopped for ever" +
                   in[stopped.thread] + ", and thread " + std::to_string(stopped.waiting) +
                   " does not end" + in[stopped.waiting];
  return violation;
}

/// The blocks that the stores of `trace` went to.
void note_blocks(const Trace& trace, const Instance& instance, Blocks& blocks) {
  std::vector<bool> noted(instance.memory().size() / line_bytes);
  for (const Event& event : trace) {
    if (!is_store(event)) continue;
    const auto line = static_cast<LineNumber>(event.at / line_bytes);
    if (noted[line]) continue;
    noted[line] = true;
    blocks.try_emplace(line, instance.block_at(std::uint64_t{line} * line_bytes));
  }
}

/// After the preload, unless that is a bulk load. A mutant is not explored before the mutated place
/// is met, because until then it leaves the same states as the original.
std::uint32_t first_explored_event(const Program& program, const Recorder::Run& prologue,
                                   const Recorder::Run& main) {
  const std::size_t behind = prologue.trace.size();
  const bool passes = !program.preload.empty() && program.preload[0].action != Action::load;
  std::size_t from = passes ? behind : 0;
  if (prologue.mutated_from)
    from = std::max(from, *prologue.mutated_from);
  else if (main.mutated_from)
    from = std::max(from, behind + *main.mutated_from);
  return static_cast<std::uint32_t>(from);
}

/// Of the operations whose number is `first` or more, by number: those that begin after a cut
/// never. Half of the time some of the next ones are among them, because what comes next after a
/// recovery need not be of the kind that was cut.
std::vector<bool> skipped_after(const Case& what, const CutState& cut, std::size_t first,
                                std::size_t operations) {
  std::vector<bool> skipped(operations, false);
  for (const Event& event : cut.told) skipped[event.at] = true;
  Rng rng(what.cut, 12);
  const auto rest = static_cast<std::uint64_t>(std::ranges::count(skipped, false));
  constexpr std::uint64_t most = 32;
  std::uint64_t more = rest == 0 || rng.below(2) == 0 ? 0 : std::min(rest - 1, rng.below(most));
  for (std::size_t i = first; i < operations && more > 0; ++i)
    if (!skipped[i]) {
      skipped[i] = true;
      --more;
    }
  return skipped;
}

/// Makes one trace of both parts, and notes which of its events are explored. `recovers_from`: the
/// event with which a recovery begins, if the run goes on after a cut.
void join(const Case& what, Recorder::Run& prologue, Recorder::Run& main,
          std::optional<std::uint32_t> recovers_from, Recorded& run) {
  const auto behind = static_cast<std::uint32_t>(prologue.trace.size());
  if (recovers_from) {
    run.recovers_from = *recovers_from;
    run.recovers_to = behind;
  }
  run.explored_from = recovers_from.value_or(first_explored_event(what.program, prologue, main));
  if (what.subject.heap != HeapKind::pmdk) run.in_use_from = behind;
  if (what.only_threads) run.explored_from = std::max(run.explored_from, behind);
  run.trace = std::move(prologue.trace);
  run.trace.insert(run.trace.end(), main.trace.begin(), main.trace.end());
  if (what.mutation.kind == Mutation::Kind::none || what.domain != Domain::adr) return;
  for (Deviation& deviation : main.deviations) {
    deviation.at += behind;
    prologue.deviations.push_back(deviation);
  }
  run.telling = find_lower_floors(run.trace, prologue.deviations);
}

/// One run while it is being recorded.
class Recording {
 public:
  Recording(const Case& what, Workspace& workspace)
      : what_(what), workspace_(workspace), vocabulary_(what.program) {}

  [[nodiscard]] Verdict run() {
    if (what_.cut == 0 ? start() : go_on()) {
      prologue_ = alone();
      if (instance_ || prologue_.hung) finish();
    }
    return std::move(verdict_);
  }

  /// Asks the heap's oracle, if the run has ended and nothing else is wrong.
  void ask_heap(Verdict& verdict) {
    if (verdict.violation) verdict.violation->fails_without_loss = true;
    if (verdict.violation || verdict.run.hung || !instance_ || is_foreign()) return;
    if (what_.mutation.kind != Mutation::Kind::none) return;  // the original was asked
    const auto is_wrong = [](const Answer& answer) { return !answer.wrong.empty(); };
    if (std::ranges::any_of(verdict.run.answers, is_wrong)) return;  // which exploring tells
    {  // the run is repeated in the memory that its recovered instance is in
      HeapOracle oracle(what_, workspace_, vocabulary_, std::move(instance_), verdict.run);
      verdict.violation = oracle.ask(block_history_ ? &*block_history_ : nullptr);
      if (!oracle.wants_history()) return;
    }
    Recording again(what_, workspace_);
    again.block_history_.emplace();
    Verdict named = again.run();
    again.ask_heap(named);
    if (named.violation) verdict = std::move(named);
  }

 private:
  [[nodiscard]] bool is_foreign() const { return what_.subject.heap == HeapKind::pmdk; }
  [[nodiscard]] std::size_t first_explored() const { return 1 + what_.program.preload.size(); }
  Recorded& recorded() { return verdict_.run; }

  [[nodiscard]] bool start() {
    Recorded& run = recorded();
    run.operations = number(what_.program);
    run.answers.resize(run.operations.size());
    if (!is_foreign())
      std::ranges::copy(workspace_.garbage(mix64(what_.program.universe) % 2 == 0),
                        workspace_.live().base());
    auto made = start_new(what_.subject, vocabulary_, workspace_.live());
    if (!made) {
      verdict_.violation = Violation{
          .oracle = Oracle::creation, .what = made.error().line(), .fails_without_loss = true};
      return false;
    }
    instance_ = std::move(made).value();
    memory_ = instance_->memory();
    run.before.assign(memory_.begin(), memory_.end());
    return true;
  }

  /// Runs the sound program up to the cut, and puts the state that the cut leaves into its memory.
  [[nodiscard]] bool go_on() {
    PERDURE_ASSERT(!is_foreign());
    Case uncut = what_;
    uncut.cut = 0;
    uncut.mutation = {};
    uncut.schedule = {.software = what_.schedule.software};
    Rng rng(what_.cut, 11);
    // One time in four the pool is closed there instead, because opening a closed pool differs.
    const bool closes = rng.below(4) == 0;
    if (closes) uncut.program.operations.resize(rng.below(uncut.program.operations.size() + 1));
    Recording before(uncut, workspace_);
    before.asks_live_ = false;
    Verdict first = before.run();
    if (first.violation || first.run.hung || !before.instance_) {
      verdict_ = std::move(first);
      return false;
    }
    if (closes) before.instance_->close();
    before.instance_.reset();
    memory_ = workspace_.live().span();
    cut_ = closes ? CutState{{memory_.begin(), memory_.end()}, {}}
                  : draw_first_cut(what_, first.run, vocabulary_, workspace_);
    if (closes)
      std::ranges::copy_if(first.run.trace, std::back_inserter(cut_->told), is_call_or_return);
    Recorded& run = recorded();
    run.first_cut.reset(new FirstCut{first.run.trace, cut_->event, cut_->lines, closes});
    run.blocks = std::move(first.run.blocks);
    run.operations = number(what_.program);
    run.answers.resize(run.operations.size());
    for (const Event& event : cut_->told)
      if (event.kind == Event::Kind::ret)
        run.answers[event.at] = std::move(first.run.answers[event.at]);
    std::ranges::copy(cut_->content, memory_.begin());
    run.before = cut_->content;
    return true;
  }

  void perform(Recorder& recorder, std::uint32_t operation) {
    recorder.called(operation);
    recorded().answers[operation] = instance_->perform(recorded().operations[operation]);
    recorder.returned(operation);
    if (block_history_) note_blocks_of(operation);
  }
  /// In one call: all are called before any does something, and return when all are done.
  void perform(Recorder& recorder, std::span<const std::uint32_t> batch) {
    if (batch.size() == 1) return perform(recorder, batch.front());
    std::vector<Operation> operations;
    for (const std::uint32_t each : batch) {
      recorder.called(each);
      operations.push_back(recorded().operations[each]);
    }
    std::vector<Answer> answers = instance_->perform_batch(operations);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      recorded().answers[batch[i]] = std::move(answers[i]);
      recorder.returned(batch[i]);
      if (block_history_) note_blocks_of(batch[i]);
    }
  }
  /// Unobserved, or the schedule would meet other steps than without.
  void note_blocks_of(BlockHistory::Operation operation) {
    platform::Observer* const observer = platform::Observer::install(nullptr);
    block_history_->note(*instance_, operation);
    platform::Observer::install(observer);
  }

  /// By one thread: creation and preload, or what was told before the cut and the recovery.
  [[nodiscard]] Recorder::Run alone() {
    Recorder recorder(memory_.data(), memory_.size(),
                      {.threads = 1,
                       .schedule = {.software = what_.schedule.software},
                       .most_steps = most_steps_for(what_.program.keys),
                       .mutation = what_.mutation,
                       .before = is_foreign() ? recorded().before.data() : nullptr});
    return recorder.run([&](unsigned) {
      if (cut_) {
        for (const Event& event : cut_->told)
          event.kind == Event::Kind::call ? recorder.called(event.at) : recorder.returned(event.at);
        recovers_from_ = static_cast<std::uint32_t>(recorder.events());
        // A structure may say that the pool is damaged, if that is in its contract.
        instance_ = recover(what_.subject, vocabulary_, workspace_.live()).instance;
        if (instance_ && block_history_) note_blocks_of(std::nullopt);
        return;
      }
      for (std::uint32_t i = 0; i < first_explored(); ++i) {
        perform(recorder, i);
        if (!recorded().answers[i].wrong.empty()) return;
      }
    });
  }

  /// By all threads at once: the operations that have not begun. The trace continues the
  /// prologue's.
  [[nodiscard]] Recorder::Run together(const std::byte* explained) {
    const std::size_t operations = recorded().operations.size();
    const std::vector<bool> skipped =
        cut_ ? skipped_after(what_, *cut_, first_explored(), operations)
             : std::vector<bool>(operations, false);
    const unsigned threads = what_.program.threads;
    // After a cut only half of the time, because waiting for retired blocks also ends the recovery.
    const bool quiesces = threads == 1 && what_.cut % 2 == 0;
    Recorder recorder(memory_.data(), memory_.size(),
                      {.threads = threads,
                       .schedule = what_.schedule,
                       .most_steps_beside_stopped = most_steps_beside_stopped(what_.program.keys),
                       .mutation = what_.mutation,
                       .before = explained,
                       .last_group = prologue_.last_group});
    return recorder.run([&](unsigned thread) {
      const std::vector<Operation>& all = recorded().operations;
      std::vector<std::uint32_t> batch;
      const auto call = [&] {
        if (batch.empty()) return;
        perform(recorder, batch);
        // Retired blocks are freed and used again, or a link to one would never be noticed.
        if (quiesces && std::ranges::any_of(batch, is_followed_by_quiesce)) instance_->quiesce();
        batch.clear();
      };
      for (auto i = static_cast<std::uint32_t>(first_explored()); i < operations; ++i) {
        if (all[i].thread != thread || skipped[i]) continue;
        if (!batch.empty() && !are_one_call(all[batch.back()], all[i])) call();
        batch.push_back(i);
      }
      call();
    });
  }

  void finish() {
    Recorded& run = recorded();
    std::vector<std::byte> explained;
    if (is_foreign()) explained = applied(prologue_.trace, run.before);
    if (instance_) run.capacity = instance_->capacity();
    Recorder::Run main;
    if (!prologue_.hung && run.answers[0].wrong.empty())
      main = together(is_foreign() ? explained.data() : nullptr);
    run.hung = prologue_.hung || main.hung;
    run.stopped = main.stopped;
    for (const Trace* const part : {&prologue_.trace, &main.trace})
      if (instance_) note_blocks(*part, *instance_, run.blocks);
    if (run.hung || run.stopped) let_go();  // locks may be held for ever
    join(what_, prologue_, main, recovers_from_, run);
    verdict_.work += prologue_.steps.count + main.steps.count;
    verdict_.steps = main.steps;
    verdict_.sites = std::move(prologue_.sites);
    verdict_.sites.insert(main.sites.begin(), main.sites.end());
    verdict_.trace_digest = digest(run.trace);
    if (run.hung && run.stopped) verdict_.violation = waits_for_stopped(run, vocabulary_);
    // A mutant's stores are the original's, which was asked.
    if (run.hung || what_.mutation.kind != Mutation::Kind::none) return;
    if (!is_foreign()) verdict_.violation = unseen_change(run, memory_);
    if (!verdict_.violation && instance_ && asks_live_) look_at_live();
  }

  void look_at_live() {
    Live live =
        ask_live(what_.subject, *instance_, recorded(), vocabulary_, what_.schedule.software);
    verdict_.work += live.steps;
    verdict_.violation = std::move(live.violation);
    if (live.hung) let_go();
  }

  /// Of an instance that cannot be destroyed.
  void let_go() {
    static_cast<void>(instance_.release());
    if (is_foreign()) close_copy(memory_.data());
  }

  const Case& what_;
  Workspace& workspace_;
  bool asks_live_ = true;
  Vocabulary vocabulary_;
  std::optional<CutState> cut_;
  std::unique_ptr<Instance> instance_;
  std::optional<BlockHistory> block_history_;  ///< of the run, if it shall be noted
  std::span<std::byte> memory_;
  std::optional<std::uint32_t> recovers_from_;  ///< event: the recovery begins, after a cut
  Recorder::Run prologue_;
  Verdict verdict_;
};

}  // namespace

Verdict record(const Case& what, Workspace& workspace) {
  platform::Observer::offers_transactions = what.transactions;
  pm::configure_transactions(what.transactions ? pm::TransactionUse::on : pm::TransactionUse::off);
  Recording recording(what, workspace);
  Verdict verdict = recording.run();
  recording.ask_heap(verdict);
  return verdict;
}

}  // namespace perdure::crash
