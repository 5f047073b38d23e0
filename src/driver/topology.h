// Topology: the cores this process may use, in the order in which threads are pinned to them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perdure::driver {

/// One logical CPU.
struct Core {
  unsigned number = 0;   ///< as the kernel counts
  unsigned package = 0;  ///< socket
  unsigned core_id = 0;  ///< physical core within the package
  friend bool operator==(const Core&, const Core&) = default;
};

/// The logical CPUs this process may run on, from its affinity mask and `sysfs` ("/sys", or a copy
/// in tests). A machine that does not tell its topology has one core per CPU.
[[nodiscard]] std::vector<Core> usable_cores(const std::string& sysfs = "/sys");

/// How many threads of this process can run at once: its logical CPUs, or as many as the quota of
/// its control groups (rounded up) where that is less. `root` stands before every path, for tests.
[[nodiscard]] unsigned cores_to_use(const std::string& root = "");

/// CPU numbers, one thread after the other: first one CPU of every physical core, package by
/// package, then their siblings. Two threads on one physical core would share its caches and units
/// while others idle.
[[nodiscard]] std::vector<unsigned> pinning_order(std::span<const Core> cores);

/// A mask of CPUs, of as many as the kernel counts: a cpu_set_t ends at 1024.
class CpuSet {
 public:
  explicit CpuSet(std::span<const unsigned> cpus);
  /// Where the calling thread may run. Empty when the system refuses.
  [[nodiscard]] static std::optional<CpuSet> of_this_thread();
  [[nodiscard]] std::vector<unsigned> cpus() const;
  /// Lets the calling thread run there only. False when the system refuses.
  bool apply() const noexcept;
  friend bool operator==(const CpuSet&, const CpuSet&) = default;

 private:
  std::vector<unsigned long> words_;
};

/// Pins the calling thread. False when the system refuses.
bool pin_this_thread(unsigned cpu) noexcept;

/// While one lives, the calling thread runs on `cpus` only, and so does every thread that it starts
/// meanwhile, for good: the threads that an index starts share the cores of its workers. Changes
/// nothing where `cpus` is empty or the system refuses.
class Confined {
 public:
  explicit Confined(std::span<const unsigned> cpus) noexcept;
  ~Confined();
  Confined(const Confined&) = delete;
  Confined& operator=(const Confined&) = delete;

 private:
  std::optional<CpuSet> before_;  ///< empty: nothing was changed
};

}  // namespace perdure::driver
