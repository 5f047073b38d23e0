// Recorder: watches a run on a live pool. It writes the trace and decides who runs.
//
// Hooks come before the access and carry no value, so a store is completed at the same thread's
// next hook that is not a plain load's: of an object that is copied the compiler announces the
// store, then the load, and then does both. A switch to another thread happens only inside a hook,
// after that, so at most one store is ever open.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "crash/callers.h"
#include "crash/deviation.h"
#include "crash/elision.h"
#include "crash/fibers.h"
#include "crash/line.h"
#include "crash/schedule.h"
#include "crash/trace.h"
#include "platform/runtime/observer.h"

namespace perdure::crash {

/// Turns hooks on one range of memory into events: the part that runs and recoveries share.
class EventSource {
 public:
  EventSource(const std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}

  enum class Access : std::uint8_t { plain, atomic, update };
  [[nodiscard]] static Access access_of(platform::Observer::Atomic kind) noexcept {
    return kind == platform::Observer::Atomic::update ? Access::update : Access::atomic;
  }
  void begin_store(unsigned thread, const void* address, std::size_t bytes, const void* pc,
                   Access access);
  /// The open store has taken place: its value is read now. Not called at a plain load.
  void settle();
  void add(Event::Kind kind, unsigned thread, std::uint64_t at, unsigned size, const void* pc);
  /// A streaming store of whole words whose values come with the next `settle`.
  void begin_stream(unsigned thread, const void* address, std::size_t bytes, const void* pc);

  /// Code without hooks writes there, too: what it wrote is told from what the trace explains,
  /// beginning with `before`. `base`: where the memory is now.
  void explain_from(const std::byte* before, const std::byte* base);
  /// Such code flushes: what nothing explains in these lines are its stores, as one step.
  void foreign_flush(unsigned thread, const void* address, std::size_t bytes, const void* pc);

  /// What follows is one group, or nothing at all.
  void begin_group();
  /// All stores of the group, with a locked instruction before and after them.
  void end_group(unsigned thread, const void* pc);
  /// The group's stores have been taken back.
  void drop_group();

  [[nodiscard]] const std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint32_t offset_of(const void* address) const noexcept {
    return static_cast<std::uint32_t>(static_cast<const std::byte*>(address) - base_);
  }
  [[nodiscard]] bool holds(const void* address) const noexcept {
    return static_cast<std::uintptr_t>(static_cast<const std::byte*>(address) - base_) < bytes_;
  }

  Trace trace;
  std::uint32_t last_group = 0;  ///< number given

 private:
  struct Open {
    Event::Kind kind;
    std::uint8_t thread;
    std::uint32_t at;
    std::size_t bytes = 0;
    const void* pc;
    Access access;
    std::uint64_t before;
  };

  void explain(std::uint32_t at, std::size_t bytes);
  [[nodiscard]] LineContent& explained(LineNumber line);

  const std::byte* base_;
  std::size_t bytes_;
  Open open_{};
  const std::byte* before_ = nullptr;                      ///< null: all code has hooks
  std::unordered_map<LineNumber, LineContent> explained_;  ///< lines that differ from `before_`
  std::size_t group_begin_ = 0;                            ///< in the trace
};

/// Places whose flush or fence is left out: a mutation, by program counter.
struct Mutation {
  enum class Kind : std::uint8_t {
    none,
    drop,      ///< does not happen
    retarget,  ///< a flush of the line before the right one
    late,      ///< a flush after the next fence; a fence after the next store
  };
  Kind kind = Kind::none;
  const void* pc = nullptr;
};

/// A flush or fence met in a run.
struct Site {
  const void* pc;
  bool is_fence;
  friend auto operator<=>(const Site&, const Site&) = default;
};

/// No operation, recovery or lookup of every key takes more steps than this in a structure of so
/// many keys, where one search may pass all keys.
[[nodiscard]] constexpr std::uint64_t most_steps_for(std::uint64_t keys) noexcept {
  constexpr std::uint64_t few = 64;
  return std::uint64_t{4'000'000} * (keys < few ? 1 : keys / few);
}
/// The same beside a thread that has stopped, where others wait in vain in many runs: 50'000 with
/// few keys, far above what an operation takes beside a few others.
[[nodiscard]] constexpr std::uint64_t most_steps_beside_stopped(std::uint64_t keys) noexcept {
  constexpr std::uint64_t part = 80;
  return most_steps_for(keys) / part;
}

class Recorder final : public platform::Observer {
 public:
  struct Options {
    unsigned threads = 1;
    Schedule schedule;
    std::uint64_t most_steps = most_steps_for(0);  ///< more without a call or return: the run hangs
    std::uint64_t most_steps_beside_stopped = crash::most_steps_beside_stopped(0);
    Mutation mutation;
    /// Where the pool's bytes are as they were, if code without hooks writes to it, too.
    const std::byte* before = nullptr;
    std::uint32_t last_group = 0;  ///< of a trace that this one continues
  };
  struct Run {
    Trace trace;
    Steps steps;
    bool hung = false;
    std::optional<Stopped> stopped;
    std::set<Site> sites;
    std::uint32_t last_group = 0;
    std::optional<std::size_t> mutated_from;  ///< where the trace first differs from a sound one
    std::vector<Deviation> deviations;        ///< of the mutant, in the order of the trace
  };

  Recorder(const std::byte* base, std::size_t bytes, Options options);
  ~Recorder() override;

  /// Runs `job(thread)` on every thread; call and return of operations are told by `called` and
  /// `returned` from inside.
  [[nodiscard]] Run run(const std::function<void(unsigned)>& job);
  void called(std::uint32_t operation);
  void returned(std::uint32_t operation);
  /// So far.
  [[nodiscard]] std::size_t events() const noexcept { return source_.trace.size(); }

  void read(const void*, std::size_t, const void*) override {}
  void write(const void* address, std::size_t bytes, const void* pc) override;
  void atomic(const void* address, std::size_t bytes, Atomic kind, const void* pc) override;
  void flush(const void* line, Flush kind, const void* pc) override;
  void fence(const void* pc) override;
  void stream(const void* address, std::size_t bytes, const void* pc) override;
  void pause(const void* pc) override;
  void foreign_flush(const void* address, std::size_t bytes, const void* pc) override;
  void foreign_fence(const void* pc) override;
  void mapped(const void*, std::size_t) override {}
  void unmapped(const void*) override {}
  std::uint32_t transaction_begin(std::byte* frame, const std::byte* caller_frame) override;
  void transaction_commit(const void* pc) override;
  void transaction_abort() override;
  [[nodiscard]] std::size_t thread_slot() noexcept override;

 private:
  /// A place where another thread may take over. `hook`: what called the observer, if that is
  /// known.
  void meet(const void* hook);
  /// The running thread has come to its last step.
  void stop(const void* hook);
  [[noreturn]] void give_up_run(const void* hook);
  /// It may go on.
  [[nodiscard]] bool is_alive(unsigned thread) const;
  void hand_over(unsigned to);
  /// The thread that runs when `after` ends or waits: the highest priority, or the next number; or
  /// `nobody`.
  [[nodiscard]] unsigned next_alive(unsigned after) const;
  /// Gives the thread the lowest priority.
  void demote(unsigned thread);
  [[noreturn]] void give_up_transaction(std::uint32_t status);
  /// A fence or locked instruction.
  void raise_floors(Event::Kind kind, const void* pc);
  /// From the mutated place to the thread's next fence preemptions matter; where a line was not
  /// flushed, to the next one after it was.
  void expose();
  /// A flush or fence that the sound program executes here, and the mutant does not.
  void leave_out(const Event& event);
  /// Notes where locks are taken and released: words that are updated by locked instructions.
  void note_lock(const void* address, Atomic kind);
  /// Counts it among the sites of the run.
  void meet_site(const Site& site);
  /// For what no transaction survives.
  void forbid_transaction();
  void watch_pool_only();
  /// While one thread runs alone, nothing can come between its loads.
  void hush_loads();

  Options options_;
  EventSource source_;
  Fibers fibers_;
  Callers callers_;
  Elision elision_;
  std::uint64_t elided_steps_ = 0;
  std::array<Site, 64> recent_sites_{};  ///< by address; they are in `run_.sites`
  std::vector<Bytes> untold_;            ///< by line: nothing but 0
  std::uint64_t steps_told_ = 0;         ///< up to the last call or return
  std::uint64_t quiet_given_ = 0;        ///< loads, when they were last hushed
  std::uint64_t quiet_met_ = 0;          ///< since the last step
  Run run_;
  std::size_t next_preemption_ = 0;
  std::vector<std::uint8_t> order_;        ///< priorities now, the highest first; or empty
  std::vector<Event> postponed_;           ///< by a mutation
  std::array<std::uint16_t, 8> pauses_{};  ///< by thread, in a row
  /// By thread: words that its operation has updated and not stored to since. No longer, because
  /// memory that is freed comes again elsewhere on another machine.
  std::array<std::vector<const void*>, 8> locks_{};
  std::uint8_t exposed_ = 0;  ///< bit t: thread t did without it, and has not fenced since
  std::array<std::optional<std::uint32_t>, 8> unflushed_{};  ///< by thread: the line's offset
};

}  // namespace perdure::crash
