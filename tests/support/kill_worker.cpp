// The child's half of a kill round.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/dispatch.h"
#include "support/kill.h"
#include "support/samples.h"

namespace perdure::testing {
namespace {

template <class Keys>
Outcome perform(OrderedIndex<Keys>& index, const KillEntry& entry) {
  const auto key = Samples<Keys>::numbered(entry.key);
  const auto value = Samples<Keys>::stamped(entry.stamp);
  switch (entry.step) {
    case KillStep::insert:
      return index.insert(key, value);
    case KillStep::upsert:
      return index.upsert(key, value);
    case KillStep::update:
      return index.update(key, value);
    case KillStep::remove:
      return index.remove(key);
  }
  return Outcome::invalid;
}

KillStep draw(Rng& rng, std::uint32_t growing, bool replaces) {
  const std::uint64_t kind = replaces ? rng.below(10) : 10;
  if (kind == 0) return KillStep::update;
  if (kind == 1) return KillStep::upsert;
  return rng.below(100) < growing ? KillStep::insert : KillStep::remove;
}

template <class Keys>
void work(OrderedIndex<Keys>& index, KillLog& log, unsigned thread) {
  Rng rng(log.seed, log.round * kill_threads + thread);
  // A run of neighbouring keys at a time fills, splits and empties leaves more than single ones do.
  std::uint64_t start = 0;
  std::uint64_t left = 0;
  for (std::uint32_t i = 0; i < kill_entries; ++i, ++start) {
    if (left-- == 0) {
      start = rng.below(log.keys);
      left = rng.below(40);
    }
    KillEntry& entry = log.entries[thread][i];
    entry.key = static_cast<std::uint32_t>(start % (log.keys / log.threads) * log.threads + thread);
    entry.step = draw(rng, log.growing, log.replaces != 0);
    entry.stamp = (log.round << 32) + i * kill_threads + thread;
    entry.state.store(EntryState::intended, std::memory_order_release);
    entry.outcome = perform(index, entry);
    entry.state.store(EntryState::acknowledged, std::memory_order_release);
  }
}

template <class Keys>
[[noreturn]] void live(const Target& target, const BedOptions& options, const std::string& path,
                       KillLog& log) {
  log.child = ChildState::recovering;
  auto bed = Bed<Keys>::open(target, options, path);
  if (!bed) {
    std::snprintf(log.problem, sizeof log.problem, "%s", bed.error().line().c_str());
    log.child = ChildState::failed;
    std::_Exit(1);
  }
  std::vector<std::thread> crew;
  log.child = ChildState::working;
  for (unsigned t = 0; t < log.threads; ++t)
    crew.emplace_back([&, t] { work(bed.value()->index(), log, t); });
  for (std::thread& thread : crew) thread.join();
  for (;;) pause();  // out of entries: the kill comes
}

}  // namespace

void run_kill_worker(int argc, char** argv) {
  if (argc < 8 || std::strcmp(argv[1], "--kill-worker") != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted suite leaves no child behind
  const int file = ::open(argv[2], O_RDWR);
  void* const mapped = mmap(nullptr, sizeof(KillLog), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || mapped == MAP_FAILED) std::_Exit(2);
  auto& log = *static_cast<KillLog*>(mapped);
  auto info = IndexRegistry::find(argv[3]);
  if (!info) std::_Exit(2);
  const auto heap = static_cast<HeapKind>(std::atoi(argv[4]));
  BedOptions options;
  options.pool_bytes = std::strtoull(argv[5], nullptr, 10);
  options.threads = 2;
  const std::string path = argv[6];
  const auto is = [&](KeyKind kind) { return std::strcmp(argv[7], name_of(kind)) == 0; };
  const KeyKind kind = is(KeyKind::integer) ? KeyKind::integer
                       : is(KeyKind::bytes) ? KeyKind::bytes
                                            : KeyKind::slots;
  for (int i = 8; i < argc; ++i) options.options.emplace_back(argv[i]);
  const Target target{info.value(), heap, kind, {}};
  for_kind(kind, [&](auto keys) { live<decltype(keys)>(target, options, path, log); });
}

}  // namespace perdure::testing
