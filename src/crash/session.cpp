#include "crash/session.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "crash/clock.h"

namespace perdure::crash {
Bench::Bench(std::size_t pool_bytes, HeapKind heap)
    : live_(pool_bytes, heap == HeapKind::pmdk),
      image_(pool_bytes, heap == HeapKind::pmdk),
      watch_(image_, heap == HeapKind::pmdk) {
  if (heap == HeapKind::pmdk) ready_ = make_pmdk_pool(live_);
  // A run takes some megabytes and frees them. Given back to the system, they would have to be
  // mapped again for the next one.
  constexpr int kept_bytes = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kept_bytes);
  mallopt(M_TRIM_THRESHOLD, 8 * kept_bytes);
}

std::span<const std::byte> Bench::garbage(bool small) {
  constexpr std::uint64_t small_ones = 16;
  std::vector<std::byte>& kept = garbage_[small ? 1 : 0];
  if (!kept.empty()) return kept;
  kept.resize(live_.bytes());
  Rng garbage(1, 7);
  for (std::size_t i = 0; i + word_bytes <= kept.size(); i += word_bytes) {
    const std::uint64_t word = small ? garbage.below(small_ones) : garbage();
    std::memcpy(kept.data() + i, &word, word_bytes);
  }
  return kept;
}

namespace {

/// False when a cut behind none of its events leaves anything that is worth a look: the program did
/// not go on behind a cut, or the mutant is, in this run, what the original is.
bool is_worth_exploring(const Case& what, const Verdict& verdict) {
  const Recorded& run = verdict.run;
  if (run.trace.empty()) return false;
  if (what.mutation.kind == Mutation::Kind::none || run.hung) return true;
  if (!run.telling.empty())
    return std::find(run.telling.begin() + run.explored_from, run.telling.end(), true) !=
           run.telling.end();
  return verdict.sites.contains({what.mutation.pc, false}) ||
         verdict.sites.contains({what.mutation.pc, true});
}

/// Records the case and, unless its run was wrong already, asks an explorer of it.
template <class Ask>
Verdict examine(const Case& what, Bench& bench, Ask&& ask) {
  const std::uint64_t steps_before = bench.watch().all_steps();
  Verdict verdict = record(what, bench);
  if (verdict.violation || !is_worth_exploring(what, verdict)) return verdict;
  const double began = now_seconds();
  const Vocabulary vocabulary(what.program);
  bench.watch().mutate(what.mutation);
  Explorer explorer(what.subject, vocabulary, bench.image(), bench.watch(), what.domain,
                    what.bounds);
  verdict.violation = ask(explorer, verdict.run);
  verdict.coverage = explorer.coverage();
  verdict.exploring_seconds = now_seconds() - began;
  verdict.work += bench.watch().all_steps() - steps_before;
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

}  // namespace perdure::crash
