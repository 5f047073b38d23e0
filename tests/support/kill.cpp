// The parent's half of a kill round.
#include "support/kill.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>

#include "support/differential.h"
#include "support/samples.h"

namespace perdure::testing {
namespace {

using Clock = std::chrono::steady_clock;
/// What each key must be: its stamp, or absent.
using Stamps = std::vector<std::uint64_t>;
constexpr std::uint64_t absent = bad_stamp;

class MappedLog {
 public:
  explicit MappedLog(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (file >= 0 && ftruncate(file, sizeof(KillLog)) == 0)
      mapped_ = mmap(nullptr, sizeof(KillLog), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) ::close(file);
  }
  ~MappedLog() {
    if (mapped_ != MAP_FAILED) munmap(mapped_, sizeof(KillLog));
  }
  MappedLog(const MappedLog&) = delete;
  MappedLog& operator=(const MappedLog&) = delete;

  [[nodiscard]] bool ok() const { return mapped_ != MAP_FAILED; }
  KillLog* operator->() { return static_cast<KillLog*>(mapped_); }
  void start_round(std::uint64_t seed, std::uint64_t round, const KillPlan& plan, Rng& rng) {
    // Only what the last round wrote: clearing two megabytes a round would cost more than the
    // round.
    for (auto& entries : (*this)->entries)
      for (KillEntry& entry : entries) {
        if (entry.state.load() == EntryState::unused) break;
        entry.state = EntryState::unused;
      }
    (*this)->child = ChildState::starting;
    (*this)->threads = static_cast<std::uint32_t>(1 + rng.below(kill_threads));
    (*this)->seed = seed;
    (*this)->round = round;
    (*this)->keys = plan.keys;
    (*this)->growing = round / 4 % 2 == 0 ? 70 : 25;
  }

 private:
  void* mapped_ = MAP_FAILED;
};

pid_t start_child(const Target& target, const BedOptions& options, const std::string& log,
                  const std::string& path) {
  std::vector<std::string> words{"/proc/self/exe",
                                 "--kill-worker",
                                 log,
                                 target.info->full_name(),
                                 std::to_string(static_cast<int>(target.heap)),
                                 std::to_string(options.pool_bytes),
                                 path,
                                 name_of(target.kind)};
  words.insert(words.end(), target.options.begin(), target.options.end());
  words.insert(words.end(), options.options.begin(), options.options.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
  return child;
}

/// Waits until the child has reached `state`, or is past it. False: it ended or took too long.
bool wait_for(MappedLog& log, ChildState state, pid_t child) {
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  while (log->child.load() < state) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (Clock::now() > deadline) return false;
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == child)
      return log->child.load() >= state;
  }
  return log->child.load() != ChildState::failed;
}

/// Runs one child and kills it. Error: it ended by itself.
Result<void> kill_one(const Target& target, const BedOptions& options, const std::string& log_path,
                      const std::string& path, MappedLog& log, bool in_recovery, Rng& rng) {
  const pid_t child = start_child(target, options, log_path, path);
  if (child < 0) return wrong("cannot fork");
  const bool reached =
      wait_for(log, in_recovery ? ChildState::recovering : ChildState::working, child);
  if (reached) {
    const std::uint64_t microseconds = in_recovery ? rng.below(3000) : 1000 + rng.below(19000);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  }
  kill(child, SIGKILL);
  int status = 0;
  if (waitpid(child, &status, 0) != child) return wrong("lost the child");
  if (log->child.load() == ChildState::failed)
    return wrong(std::string("the child could not recover: ") + log->problem);
  if (!reached || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
    return wrong("the child ended by itself, status " + std::to_string(status));
  return {};
}

/// What the entry does to the stamps when it completes; the outcome that is right.
Outcome take_effect(const KillEntry& entry, Stamps& stamps) {
  const bool present = stamps[entry.key] != absent;
  switch (entry.step) {
    case KillStep::insert:
      if (present) return Outcome::exists;
      break;
    case KillStep::update:
      if (!present) return Outcome::not_found;
      break;
    case KillStep::remove:
      stamps[entry.key] = absent;
      return present ? Outcome::ok : Outcome::not_found;
    case KillStep::upsert:
      break;
  }
  stamps[entry.key] = entry.stamp;
  return Outcome::ok;
}

/// Replays the log on `stamps`; the operation in flight is decided by what the index holds.
template <class Keys>
Result<void> settle(OrderedIndex<Keys>& index, bool tears_values, MappedLog& log, Stamps& stamps,
                    KillReport& report) {
  bool in_flight = false;
  for (unsigned t = 0; t < log->threads; ++t) {
    for (const KillEntry& entry : log->entries[t]) {
      const EntryState state = entry.state.load(std::memory_order_acquire);
      if (state == EntryState::unused) break;
      if (state == EntryState::acknowledged) {
        ++report.acknowledged;
        if (const Outcome right = take_effect(entry, stamps); entry.outcome != right)
          return wrong("the child's operation " + std::to_string(static_cast<int>(entry.step)) +
                       " on key " + std::to_string(entry.key) + " came to " +
                       name_of(entry.outcome) + " where " + name_of(right) + " is right");
        continue;
      }
      in_flight = true;
      Stamps after = stamps;
      (void)take_effect(entry, after);
      typename Keys::ValueOut value{};
      const bool found = index.lookup(Samples<Keys>::numbered(entry.key), value) == Outcome::ok;
      const auto matches = [&](const Stamps& candidate) {
        const std::uint64_t stamp = candidate[entry.key];
        return stamp == absent ? !found : found && Samples<Keys>::stamp_of(value) == stamp;
      };
      const bool torn = found && Samples<Keys>::stamp_of(value) == bad_stamp;
      const auto write_again = [&] {
        return index.update(Samples<Keys>::numbered(entry.key),
                            Samples<Keys>::stamped(after[entry.key])) == Outcome::ok;
      };
      const bool replaces = stamps[entry.key] != absent && after[entry.key] != absent;
      if (matches(after) || (tears_values && torn && replaces && write_again()))
        stamps = std::move(after);
      else if (!matches(stamps))
        return wrong("the operation in flight on key " + std::to_string(entry.key) +
                     " is neither whole nor absent");
      break;
    }
  }
  report.kills_in_flight += in_flight;
  return {};
}

template <class Keys>
Result<void> compare(OrderedIndex<Keys>& index, bool ordered, const Stamps& stamps,
                     std::uint32_t keys) {
  using Sample = Samples<Keys>;
  std::map<typename Sample::Key, typename Sample::Value> model;
  for (std::uint32_t i = 0; i < keys; ++i)
    if (stamps[i] != absent) model.emplace(Sample::numbered(i), Sample::stamped(stamps[i]));
  std::vector<typename Sample::Key> universe;
  for (std::uint32_t i = 0; i < keys; ++i) universe.push_back(Sample::numbered(i));
  return compare_all(index, ordered, model, universe);
}

/// The parent works too, so that the index is seen to go on after the recovery.
template <class Keys>
Result<void> go_on(OrderedIndex<Keys>& index, bool replaces, Stamps& stamps, std::uint64_t round,
                   std::uint32_t keys, Rng& rng) {
  const KillStep writes = replaces ? KillStep::upsert : KillStep::insert;
  for (unsigned i = 0; i < 250; ++i) {
    KillEntry entry{(round << 32) + (1ULL << 31) + i,
                    static_cast<std::uint32_t>(rng.below(keys)),
                    rng.below(2) == 0 ? writes : KillStep::remove,
                    Outcome::ok,
                    {}};
    const auto key = Samples<Keys>::numbered(entry.key);
    const Outcome right = take_effect(entry, stamps);
    const auto value = Samples<Keys>::stamped(entry.stamp);
    const Outcome got = entry.step == KillStep::remove   ? index.remove(key)
                        : entry.step == KillStep::upsert ? index.upsert(key, value)
                                                         : index.insert(key, value);
    if (got != right)
      return wrong(std::string("after recovery an operation came to ") + name_of(got) + " where " +
                   name_of(right) + " is right");
  }
  return {};
}

/// A clean reopen reaches every live block, and finds none that nobody reaches.
template <class Keys>
Result<void> check_live_blocks(Bed<Keys>& bed) {
  if (bed.pool() == nullptr) return {};
  bed.index().quiesce();
  const std::uint64_t live = bed.pool()->heap().usage().live_blocks;
  auto reopened = bed.reopen(Reopen::clean);
  if (!reopened) return reopened.error();
  if (reopened->leaked_blocks_freed == 0 && reopened->usage.live_blocks == live) return {};
  return wrong("leak: " + std::to_string(live) + " blocks were live, " +
               std::to_string(reopened->usage.live_blocks) + " are reachable, " +
               std::to_string(reopened->leaked_blocks_freed) + " were allocated beside them");
}

template <class Keys>
Result<void> run_round(const Target& target, const BedOptions& options, const std::string& log_path,
                       const std::string& path, MappedLog& log, const KillPlan& plan,
                       std::uint64_t round, Stamps& stamps, Rng& rng, KillReport& report) {
  log.start_round(plan.seed, round, plan, rng);
  log->replaces = target.info->replaces ? 1 : 0;
  const bool in_recovery = round % 6 == 5;
  if (auto done = kill_one(target, options, log_path, path, log, in_recovery, rng); !done)
    return done;
  ++report.kills;
  report.kills_in_recovery += log->child.load() == ChildState::recovering;
  auto bed = Bed<Keys>::open(target, options, path);
  if (!bed) return bed.error();
  if (Pool* pool = bed.value()->pool(); pool != nullptr) {
    if (pool->was_clean() && log->child.load() == ChildState::working)
      return wrong("the killed pool says it was shut down cleanly");
    report.leaked_blocks_freed += pool->leaked_blocks_freed();
  }
  OrderedIndex<Keys>& index = bed.value()->index();
  const bool ordered = target.info->ordered;
  if (auto done = settle(index, target.info->tearing == Tearing::values, log, stamps, report);
      !done)
    return done;
  if (auto done = compare(index, ordered, stamps, plan.keys); !done) return done;
  if (auto done = go_on(index, target.info->replaces, stamps, round, plan.keys, rng); !done)
    return done;
  if (round % 8 != 7) return {};  // the pool is left as if this process had crashed too
  if (auto done = check_live_blocks(*bed.value()); !done) return done;
  if (auto done = compare(bed.value()->index(), ordered, stamps, plan.keys); !done) return done;
  return round % 16 == 15 ? bed.value()->close() : Result<void>{};
}

}  // namespace

template <class Keys>
Result<KillReport> run_kill_rounds(const Target& target, const KillPlan& plan) {
  TempFolder folder;
  const std::string log_path = folder.file("log");
  MappedLog log(log_path);
  if (!log.ok()) return wrong("cannot map the log");
  BedOptions options;
  options.pool_bytes = plan.pool_bytes;
  if (plan.small_nodes) options.options = small_nodes(*target.info);
  auto first = Bed<Keys>::create(target, options);
  if (!first) return first.error();
  const std::string path = first.value()->path();
  first.value()->drop();
  Rng rng(plan.seed, 1000);
  Stamps stamps(plan.keys, absent);
  KillReport report;
  for (std::uint64_t round = 0; round < plan.kills; ++round) {
    auto done =
        run_round<Keys>(target, options, log_path, path, log, plan, round, stamps, rng, report);
    if (!done)
      return wrong(target.name() + ", seed " + std::to_string(plan.seed) + ", kill " +
                   std::to_string(round) + ": " + done.error().line());
  }
  return report;
}

template Result<KillReport> run_kill_rounds<IntegerKeys>(const Target&, const KillPlan&);
template Result<KillReport> run_kill_rounds<ByteKeys>(const Target&, const KillPlan&);
template Result<KillReport> run_kill_rounds<SlotKeys>(const Target&, const KillPlan&);

}  // namespace perdure::testing
