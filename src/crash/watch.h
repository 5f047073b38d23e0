// Watch: follows code that works on a crash state. Lines are saved for `undo` before they change,
// their contents may be decided when they are first read, and code that hangs or faults is stopped.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <functional>
#include <vector>

#include "crash/callers.h"
#include "crash/image.h"
#include "crash/recorder.h"
#include "platform/runtime/observer.h"

namespace perdure::crash {

enum class Ending : std::uint8_t {
  returned,
  out_of_steps,  ///< it waits for something that will not come, or walks in a circle
  fault,         ///< it followed a wild pointer
  assertion,     ///< it aborted
};
[[nodiscard]] const char* name_of(Ending ending) noexcept;

class Watch final : public platform::Observer {
 public:
  /// `copies`: the code under watch opens a copy of the image at an address of its own, and code
  /// without hooks writes there, too. Nothing of it reaches the image.
  explicit Watch(Image& image, bool copies = false);
  ~Watch() override;

  /// Runs `work` under watch. What it owns when it is stopped is leaked on purpose, because its
  /// stack cannot be unwound.
  template <class Work>
  [[nodiscard]] Ending run(Work&& work) {
    begin();
    const int stopped = sigsetjmp(return_, 0);
    if (stopped == 0) work();
    end();
    return static_cast<Ending>(stopped);
  }

  struct Asked {
    LineNumber line;
    Bytes bytes;
  };
  /// Calls `meet(line, bytes)` before any of these bytes of a line is first read, with those that
  /// are, until `ask_no_more`. A byte that was stored to no longer counts.
  void ask_for(const std::vector<Asked>& lines, std::function<void(LineNumber, Bytes)> meet);
  /// Of a line given to `ask_for`: the bytes that were stored to before they were read.
  [[nodiscard]] Bytes overwritten(LineNumber line) const { return overwritten_[line]; }
  void ask_no_more();
  /// Records stores, flushes and fences of the next runs into `trace`.
  void record(bool on);
  [[nodiscard]] Trace take_trace();
  void mutate(const Mutation& mutation) noexcept { mutation_ = mutation; }

  /// Of all runs so far: what they have cost, by no clock.
  [[nodiscard]] std::uint64_t all_steps() const noexcept { return all_steps_; }
  /// A run looks up so many keys.
  void expect_keys(std::uint64_t keys) noexcept { most_steps_ = most_steps_for(keys); }
  static constexpr std::uint64_t most_pauses = 20'000;
  /// Seconds of wall clock for one run: a guard against loops that no hook sees, so far above what
  /// any run takes that verdicts do not depend on the machine's speed.
  static constexpr double most_seconds = 20;
  void patience(double seconds) noexcept { most_ticks_ = ticks(seconds); }

  void read(const void* address, std::size_t bytes, const void* pc) override;
  void write(const void* address, std::size_t bytes, const void* pc) override;
  void atomic(const void* address, std::size_t bytes, Atomic kind, const void* pc) override;
  void flush(const void* line, Flush kind, const void* hook) override;
  void fence(const void* hook) override;
  void stream(const void* address, std::size_t bytes, const void* pc) override;
  void pause(const void* pc) override;
  void foreign_flush(const void* address, std::size_t bytes, const void* pc) override;
  void foreign_fence(const void* pc) override;
  void mapped(const void* base, std::size_t bytes) override;
  void unmapped(const void* base) override;
  // One thread needs no transactions: it takes the software path.
  std::uint32_t transaction_begin(std::byte*, const std::byte*) override {
    return Elision::aborted_for_good;
  }
  void transaction_commit(const void*) override {}
  void transaction_abort() override {}
  [[nodiscard]] std::size_t thread_slot() noexcept override { return 0; }
  /// The copy that is open, or null.
  [[nodiscard]] const std::byte* copy() const noexcept { return copy_; }

 private:
  void begin();
  void end();
  void look_at(const void* base, std::size_t bytes);
  void count() {
    if (++steps_ > most_steps_) stop(Ending::out_of_steps);
  }
  /// A load that nobody waits for is only counted, a run of them at a time.
  void hush() noexcept;
  [[noreturn]] void stop(Ending why);
  /// `stores`: without reading first.
  void meet_lines(std::uint32_t at, std::size_t bytes, bool stores);
  void change(std::uint32_t at, std::size_t bytes) {
    if (!copies_) image_.touch(at, bytes);
  }

  static constexpr double seconds_per_tick = 0.05;
  [[nodiscard]] static constexpr std::uint32_t ticks(double seconds) noexcept {
    return static_cast<std::uint32_t>(seconds / seconds_per_tick) + 1;
  }

  static void on_signal(int signal);
  static void on_tick(int);

  Image& image_;
  EventSource source_;
  bool copies_;
  const std::byte* copy_ = nullptr;
  bool recording_ = false;
  bool asking_ = false;
  std::vector<Bytes> unmet_;        ///< of those in `asked_`, by line
  std::vector<Bytes> overwritten_;  ///< of those in `asked_`, by line
  std::vector<Asked> asked_;
  std::function<void(LineNumber, Bytes)> meet_;
  std::vector<std::pair<const void*, std::size_t>> early_;  ///< flushed before `mapped`
  Mutation mutation_;
  Callers callers_;
  std::uint64_t steps_ = 0;
  std::uint64_t all_steps_ = 0;  ///< of the runs before
  std::uint64_t most_steps_ = most_steps_for(0);
  std::uint64_t quiet_given_ = 0;  ///< quiet loads, when they were last set
  std::uint64_t pauses_ = 0;
  volatile std::uint32_t ticks_ = 0;  ///< of the run under way
  std::uint32_t most_ticks_ = ticks(most_seconds);
  platform::Observer* before_ = nullptr;
  sigjmp_buf return_;
};

}  // namespace perdure::crash
