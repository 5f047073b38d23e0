// Recorder: writes what a document store is asked, and how it ends, to a trace (trace/format.h).
// Native only: a simulated run has no clients.
//
// The order of the records is that in which the store's threads come here, each under the lock of
// its key (store/observer.h, V1): so it is one in which the operations took effect, and no numbers
// have to be given out. A thread of its own writes to the file; the store's threads wait for it
// only while a slow file is `most_pending_bytes` late.
//
// W1  The file begins with whole records at any moment, but for a last one that is cut off.
// W2  After a failed write nothing more is recorded, and the file is cut after the last write that
//     succeeded.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/result.h"
#include "engine/store/observer.h"
#include "engine/trace/format.h"

namespace perdure::engine {

class Recorder final : public StoreObserver {
 public:
  struct Options {
    std::string path;
    bool replaces = false;  ///< another trace at `path`; nothing else is ever replaced
    TraceHeader header;
    /// Called once, by the writing thread, when recording ends because the file cannot be written.
    std::function<void(const Error&)> on_failure{};
  };
  /// How long a recording is.
  struct Written {
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;
  };

  /// Errors: exists, not_found, io, out_of_space.
  [[nodiscard]] static Result<std::unique_ptr<Recorder>> start(Options options);
  /// Without `finish`: what was recorded is written, without an end.
  ~Recorder() override;

  void saw(const Observation& observation) override;

  /// Writes the end. The store no longer tells, and has been settled. Errors: why recording ended.
  [[nodiscard]] Result<Written> finish(const Digest& digest);

 private:
  Recorder(Options options, int file);
  void write_until_ended();
  /// Errors: io, out_of_space.
  [[nodiscard]] Result<void> write(std::string_view bytes);
  /// The caller holds the mutex. The writing thread then says so, and ends.
  void fail(const Error& error);
  void end();

  const Options options_;
  const int file_;
  std::uint64_t written_bytes_ = 0;  ///< of the writing thread
  std::atomic<bool> has_failed_{false};

  std::mutex mutex_;
  std::condition_variable wake_;  ///< the writing thread
  std::condition_variable room_;  ///< who waits for it
  // Under the mutex:
  std::string pending_;
  std::uint64_t operations_ = 0;
  bool is_ending_ = false;
  std::optional<Error> failure_;

  std::thread writer_;  ///< the last, as it uses the others
};

}  // namespace perdure::engine
