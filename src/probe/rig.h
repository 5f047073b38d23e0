// Rig: what a probe runs on. The native one is this machine's threads, clock and memory; the
// simulated one is a platform's. Probes are written against this interface and the pm:: facade, so
// the same source measures both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/result.h"
#include "probe/point.h"

namespace perdure::probe {

/// What a running kernel may call. Plain function pointers, held in registers: a virtual call would
/// load its table, and under simulation that load would be one of the measured program's.
struct Lane {
  void* self = nullptr;
  /// Notes when `count` more operations were done; 0 restarts the clock for the next ones.
  void (*done)(void* self, std::uint64_t count) noexcept = nullptr;
  /// Lets the time pass that the benchmark's own software takes.
  void (*spend)(void* self, std::uint64_t ps) noexcept = nullptr;
};

/// Sums since some start, by name; names as in docs/probes.md.
using CounterValues = std::map<std::string, std::uint64_t>;

class Rig {
 public:
  using Job = std::function<void(unsigned thread)>;
  enum class Model : std::uint8_t { off, tags_only, on };

  virtual ~Rig() = default;

  /// Why this rig cannot measure `point`; nothing when it can.
  [[nodiscard]] virtual std::optional<std::string> lacks(const Point& point) const = 0;

  /// Prepares threads and memory for `point`. Errors: those of the memory.
  [[nodiscard]] virtual Result<void> prepare(const Point& point) = 0;
  /// `point.region_bytes` of the point's memory, at least page aligned, after `prepare`.
  [[nodiscard]] virtual std::byte* region() noexcept = 0;

  /// Runs job(t) on every thread, all starting together, and returns when all have ended.
  virtual void run(const Job& job) = 0;
  /// Under simulation, what accesses of the next `run` do; a native run always accesses memory.
  virtual void set_model(Model model) noexcept = 0;
  /// Bytes that the caches of the point's threads hold: what must be written before they overflow.
  [[nodiscard]] virtual std::uint64_t cache_bytes() const noexcept = 0;

  /// The running thread's clock, in ticks.
  using Clock = std::uint64_t (*)() noexcept;
  [[nodiscard]] virtual Clock clock() const noexcept = 0;
  [[nodiscard]] virtual double ticks_per_ns() const noexcept = 0;
  /// Lets the running thread's time pass: `Lane::spend` without its first argument.
  using Spender = void (*)(std::uint64_t ps) noexcept;
  [[nodiscard]] virtual Spender spender() const noexcept = 0;

  /// Cache-line accesses of one point, over all threads, that give a steady figure here.
  [[nodiscard]] virtual std::uint64_t lines_per_point() const noexcept = 0;
  /// Length of a bandwidth point where time decides; 0: `lines_per_point` decides.
  [[nodiscard]] virtual double seconds_per_point() const noexcept = 0;
  /// Operations between two readings of the clock, so that reading it does not slow them down.
  [[nodiscard]] virtual std::uint64_t operations_per_mark() const noexcept = 0;
  /// Nothing where the target has none; then `counters_missing` says why.
  [[nodiscard]] virtual std::optional<CounterValues> counters() const = 0;
  [[nodiscard]] virtual std::string counters_missing() const = 0;
};

}  // namespace perdure::probe
