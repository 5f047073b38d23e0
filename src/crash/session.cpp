#include "crash/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "pm/pm.h"

namespace perdure::crash {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::uint32_t operations_between_quiesces = 3;

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
    const bool stores = event.kind == Event::Kind::store || event.kind == Event::Kind::stream;
    if (stores) std::memcpy(content.data() + event.at, &event.value, event.size);
  }
  return content;
}

/// Whether the pool is, after the run, what the trace makes of it.
std::optional<Violation> unseen_change(const Recorded& run, std::span<const std::byte> pool) {
  const std::vector<std::byte> told = applied(run.trace, run.before);
  if (std::memcmp(pool.data(), told.data(), pool.size()) == 0) return std::nullopt;
  const auto at = std::ranges::mismatch(pool, told).in1;
  return Violation{.oracle = "completeness of the hooks",
                   .what = "byte " + std::to_string(at - pool.begin()) +
                           " of the pool is not what the run's hooks tell",
                   .event = static_cast<std::uint32_t>(run.trace.size())};
}

/// The blocks that the stores of `trace` went to.
void note_blocks(const Trace& trace, const Instance& instance, Blocks& blocks) {
  for (const Event& event : trace)
    if (event.kind == Event::Kind::store || event.kind == Event::Kind::stream)
      if (const auto line = static_cast<LineNumber>(event.at / line_bytes); !blocks.contains(line))
        blocks[line] = instance.block_at(std::uint64_t{line} * line_bytes);
}

/// Behind the preload, unless it is a bulk load; of a mutant not before its place, up to which it
/// leaves nothing that the original does not.
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

// Free memory holds what was there before: whoever relies on zeros must write and flush them. Small
// numbers, of every other program, look like counts and versions.
void fill_with_garbage(std::span<std::byte> memory, std::uint64_t seed) {
  constexpr std::uint64_t small_ones = 16;
  const bool small = mix64(seed) % 2 == 0;
  Rng garbage(1, 7);
  for (std::size_t i = 0; i + word_bytes <= memory.size(); i += word_bytes) {
    const std::uint64_t word = small ? garbage.below(small_ones) : garbage();
    std::memcpy(memory.data() + i, &word, word_bytes);
  }
}

}  // namespace

Bench::Bench(std::size_t pool_bytes, HeapKind heap)
    : live_(pool_bytes, heap == HeapKind::pmdk),
      image_(pool_bytes, heap == HeapKind::pmdk),
      watch_(image_, heap == HeapKind::pmdk) {
  if (heap == HeapKind::pmdk) ready_ = make_pmdk_pool(live_);
}

Verdict record(const Case& what, Bench& bench) {
  const Program& program = what.program;
  platform::Observer::offers_transactions = what.transactions;
  pm::configure_transactions(what.transactions ? pm::TransactionUse::on : pm::TransactionUse::off);
  Verdict verdict;
  Recorded& run = verdict.run;
  run.operations = number(program);
  run.answers.resize(run.operations.size());
  const std::size_t first_explored = 1 + program.preload.size();

  const bool foreign = what.subject.heap == HeapKind::pmdk;
  if (!foreign) fill_with_garbage(bench.live().span(), program.universe);
  const Vocabulary vocabulary(program);
  auto instance = start_new(what.subject, vocabulary, bench.live());
  if (!instance) {
    verdict.violation = Violation{.oracle = "creation", .what = instance.error().line()};
    return verdict;
  }
  const std::span<std::byte> memory = (*instance)->memory();
  run.before.assign(memory.begin(), memory.end());
  std::vector<std::byte> explained;

  const auto perform = [&](Recorder& recorder, std::uint32_t operation) {
    recorder.called(operation);
    run.answers[operation] = (*instance)->perform(run.operations[operation]);
    recorder.returned(operation);
  };
  // Creation and preload by one thread, then all threads at once; one trace.
  Recorder alone(memory.data(), memory.size(),
                 {.threads = 1,
                  .schedule = {.software = what.schedule.software},
                  .mutation = what.mutation,
                  .before = foreign ? run.before.data() : nullptr});
  Recorder::Run prologue = alone.run([&](unsigned) {
    for (std::uint32_t i = 0; i < first_explored; ++i) {
      perform(alone, i);
      if (!run.answers[i].wrong.empty()) return;
    }
  });
  if (foreign) explained = applied(prologue.trace, run.before);
  Recorder together(memory.data(), memory.size(),
                    {.threads = program.threads,
                     .schedule = what.schedule,
                     .mutation = what.mutation,
                     .before = foreign ? explained.data() : nullptr,
                     .last_group = prologue.last_group});
  Recorder::Run main;
  if (!prologue.hung && run.answers[0].wrong.empty())
    main = together.run([&](unsigned thread) {
      for (auto i = static_cast<std::uint32_t>(first_explored); i < run.operations.size(); ++i)
        if (run.operations[i].thread == thread) {
          perform(together, i);
          // Retired blocks are freed and used again, or a link to one would never be noticed.
          if (program.threads == 1 && i % operations_between_quiesces == 0) (*instance)->quiesce();
        }
    });
  run.hung = prologue.hung || main.hung;
  for (const Trace* const part : {&prologue.trace, &main.trace})
    note_blocks(*part, **instance, run.blocks);
  if (run.hung) {
    static_cast<void>(instance->release());  // locks are held for ever: it cannot be destroyed
    if (foreign) close_copy(memory.data());
  }
  run.explored_from = first_explored_event(program, prologue, main);
  run.trace = std::move(prologue.trace);
  run.trace.insert(run.trace.end(), main.trace.begin(), main.trace.end());
  verdict.steps = main.steps;
  verdict.sites = std::move(prologue.sites);
  verdict.sites.insert(main.sites.begin(), main.sites.end());
  verdict.trace_digest = digest(run.trace);
  if (!foreign && !run.hung) verdict.violation = unseen_change(run, memory);
  return verdict;
}

namespace {

/// A mutant that the run never meets behaves as the original did, whatever is explored.
bool meets_mutation(const Mutation& mutation, const std::set<Site>& sites) {
  return mutation.kind == Mutation::Kind::none || sites.contains({mutation.pc, false}) ||
         sites.contains({mutation.pc, true});
}

/// Records the case and, unless its run was wrong already, asks an explorer of it.
template <class Ask>
Verdict examine(const Case& what, Bench& bench, Ask&& ask) {
  Verdict verdict = record(what, bench);
  if (verdict.violation || !meets_mutation(what.mutation, verdict.sites)) return verdict;
  const double began = now_seconds();
  const Vocabulary vocabulary(what.program);
  bench.watch().mutate(what.mutation);
  Explorer explorer(what.subject, vocabulary, bench.image(), bench.watch(), what.domain,
                    what.bounds);
  verdict.violation = ask(explorer, verdict.run);
  verdict.coverage = explorer.coverage();
  verdict.exploring_seconds = now_seconds() - began;
  return verdict;
}

}  // namespace

Verdict explore(const Case& what, Bench& bench, const Stop& stop) {
  return examine(what, bench, [&](Explorer& explorer, const Recorded& run) {
    return explorer.explore(run, what.program.threads, stop);
  });
}

Verdict try_state(const Case& what, Bench& bench, std::uint32_t event,
                  const std::vector<LineState>& lines) {
  return examine(what, bench, [&](Explorer& explorer, const Recorded& run) {
    return explorer.judge_one(run, what.program.threads, event, lines);
  });
}

// Now and then the creation itself is explored, with a bulk load every other time. Half of the
// programs are long, so that large leaves split, run empty and are used again.
ProgramPlan program_plan(const Plan& plan, std::uint64_t seed) {
  ProgramPlan made{.key_kind = plan.key_kind,
                   .threads = plan.threads,
                   .operations = plan.operations,
                   .keys = plan.keys,
                   .preload = plan.preload,
                   .seed = seed,
                   .ordered = plan.subject.info->ordered};
  if (plan.long_programs && (seed % 4 == 1 || seed % 4 == 2)) {
    made.operations = made.operations * 5 / 2;
    made.preload = std::min<unsigned>(made.keys, made.preload * 5 / 2);
  }
  if (seed % 8 == 0) made.preload = 0;
  made.load = seed % 8 == 4;
  return made;
}

namespace {

/// Whose transactions abort: nobody's as often as not, then any.
std::uint8_t software_threads(const Plan& plan, Rng& rng) {
  return plan.transactions && rng.below(2) == 0 ? static_cast<std::uint8_t>(rng.below(256)) : 0;
}

}  // namespace

Summary explore_many(const Plan& plan, Bench& bench,
                     const std::function<void(const Summary&)>& progress) {
  Summary summary;
  const double began = now_seconds();
  const double end = began + plan.seconds;
  // No run takes more than its share: variety finds more than depth.
  double run_end = end;
  const Stop stop = [&] { return now_seconds() > run_end; };
  const auto spent = [&] {
    summary.seconds = now_seconds() - began;
    // A mutant that no run meets gives no states.
    return summary.seconds >= plan.seconds ||
           std::max(summary.coverage.states, summary.runs) >= plan.most_states;
  };
  const auto one = [&](Case what) {
    if (plan.most_states == ~std::uint64_t{0})
      run_end = std::min(end, now_seconds() + plan.seconds / 8);
    else
      what.bounds.states = plan.most_states - summary.coverage.states;
    Verdict verdict = explore(what, bench, stop);
    summary.exploring_seconds += verdict.exploring_seconds;
    ++summary.runs;
    summary.coverage.add(verdict.coverage);
    summary.events += verdict.run.trace.size();
    summary.trace_digest = mix64(summary.trace_digest ^ verdict.trace_digest);
    summary.sites.insert(verdict.sites.begin(), verdict.sites.end());
    if (verdict.violation) {
      summary.failed = what;
      summary.violation = std::move(verdict.violation);
    }
    spent();
    progress(summary);
    return verdict.steps;
  };
  for (std::uint64_t seed = plan.seed; !summary.violation && !spent(); ++seed) {
    Case what{plan.subject, {}, {}, plan.domain, plan.bounds, plan.mutation, plan.transactions};
    what.program = generate(program_plan(plan, seed));
    ++summary.programs;
    Rng rng(seed, 6);
    Rng paths(seed, 8);
    what.schedule.software = software_threads(plan, paths);
    const Steps steps = one(what);
    if (plan.threads == 1) continue;
    for (unsigned i = 0; i < plan.schedules && !summary.violation && !spent(); ++i) {
      const auto depth = static_cast<unsigned>(2 + rng.below(plan.depth - 1));
      what.schedule = draw_schedule(steps, plan.threads, depth, i % 2 == 0, rng);
      what.schedule.software = software_threads(plan, paths);
      one(what);
    }
    DepthFirst systematic(steps, plan.threads, plan.preemptions, rng);
    for (unsigned i = 0; i < plan.schedules && !systematic.done(); ++i) {
      if (summary.violation || spent()) break;
      what.schedule = systematic.next();
      what.schedule.software = software_threads(plan, paths);
      systematic.ran(what.schedule, one(what));
    }
  }
  summary.time_up = !summary.violation && summary.seconds >= plan.seconds;
  return summary;
}

}  // namespace perdure::crash
