#include "driver/interference.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <utility>

#include "core/limits.h"
#include "driver/clock.h"

namespace perdure::driver {
namespace {

double seconds_of(const timeval& time) noexcept {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::string with_number(const char* format, double number) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

}  // namespace

InterferenceWatch::InterferenceWatch(std::string root)
    : root_(std::move(root)), start_(read()), throttled_before_(throttled_periods(root_)) {}

// "cpu  user nice system idle iowait irq softirq steal ...", in ticks of the system.
std::optional<InterferenceWatch::CpuTimes> InterferenceWatch::read() const {
  std::ifstream file(root_ + "/proc/stat");
  std::string name;
  std::array<double, 8> ticks{};
  file >> name;
  for (double& each : ticks) file >> each;
  if (!file || name != "cpu") return std::nullopt;
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return CpuTimes{(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / per_second,
                  ticks[7] / per_second, seconds_of(used.ru_utime) + seconds_of(used.ru_stime),
                  static_cast<double>(Clock::monotonic_ns()) * 1e-9};
}

std::optional<Interference> InterferenceWatch::so_far() const {
  const std::optional<CpuTimes> now = read();
  if (!now || !start_ || now->at <= start_->at) return std::nullopt;
  Interference seen;
  seen.seconds = now->at - start_->at;
  seen.steal_cores = std::max(0.0, now->stolen - start_->stolen) / seen.seconds;
  const double others = (now->busy - start_->busy) - (now->own - start_->own);
  seen.other_cores = std::max(0.0, others) / seen.seconds;  // below 0: the two are not read at once
  std::ifstream(root_ + "/proc/loadavg") >> seen.load_average;
  const std::uint64_t throttled = throttled_periods(root_);
  seen.throttled_periods = throttled - std::min(throttled, throttled_before_);
  return seen;
}

nlohmann::ordered_json record_of(const Interference& interference) {
  return {{"seconds", interference.seconds},
          {"steal_cores", interference.steal_cores},
          {"other_cores", interference.other_cores},
          {"load_average", interference.load_average},
          {"throttled_periods", interference.throttled_periods}};
}

std::vector<std::string> warnings_of(const Interference& interference, unsigned threads,
                                     unsigned cores) {
  // Below that, rounding to the system's ticks alone would cause a warning.
  constexpr double shortest_seconds = 0.1;
  constexpr double least_steal_cores_per_thread = 0.01;
  constexpr double least_other_cores = 0.1;
  std::vector<std::string> warnings;
  if (interference.throttled_periods != 0)
    warnings.push_back("the CPU quota of a control group held the run back in " +
                       std::to_string(interference.throttled_periods) +
                       " periods while it was measured");
  if (interference.seconds < shortest_seconds) return warnings;
  if (interference.steal_cores > least_steal_cores_per_thread * std::min(threads, cores))
    warnings.push_back(
        with_number("the hypervisor took %.2f cores away while the run was measured (steal time)",
                    interference.steal_cores));
  if (interference.other_cores > least_other_cores &&
      static_cast<double>(threads) + interference.other_cores > static_cast<double>(cores))
    warnings.push_back(with_number("other processes used %.2f cores while the run was measured",
                                   interference.other_cores) +
                       with_number(", and its threads had not all of theirs (load average %.2f)",
                                   interference.load_average));
  return warnings;
}

}  // namespace perdure::driver
