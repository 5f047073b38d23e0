#include "driver/hardware_counters.h"

#include <linux/perf_event.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

namespace perdure::driver {
namespace {

struct Event {
  std::uint32_t type;
  std::uint64_t config;
};

constexpr std::uint64_t cached(std::uint64_t cache, std::uint64_t operation,
                               std::uint64_t result) noexcept {
  return cache | operation << 8 | result << 16;
}

// As in HardwareCounts::names.
constexpr std::array<Event, HardwareCounts::names.size()> events = {{
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {PERF_TYPE_HW_CACHE, cached(PERF_COUNT_HW_CACHE_DTLB, PERF_COUNT_HW_CACHE_OP_READ,
                                PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
}};

File open(const Event& event) noexcept {
  perf_event_attr wanted{};
  wanted.size = sizeof wanted;
  wanted.type = event.type;
  wanted.config = event.config;
  wanted.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  wanted.disabled = 1;
  wanted.exclude_kernel = 1;
  wanted.exclude_hv = 1;
  return File(
      static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
}

/// C3. Empty when the counter never ran.
std::optional<std::uint64_t> value_of(const File& file) noexcept {
  struct {
    std::uint64_t value, enabled_ns, running_ns;
  } told{};
  if (::read(file.get(), &told, sizeof told) != static_cast<ssize_t>(sizeof told)) return {};
  if (told.running_ns == told.enabled_ns) return told.value;
  if (told.running_ns == 0) return {};
  return static_cast<std::uint64_t>(static_cast<double>(told.value) *
                                    static_cast<double>(told.enabled_ns) /
                                    static_cast<double>(told.running_ns));
}

std::string reason_of(int error) {
  switch (error) {
    case 0:
      return "the processor had no counter free";
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
      return "this machine has no such counter";
    case EACCES:
    case EPERM:
      return "the system refuses it: see kernel.perf_event_paranoid";
    case ENOSYS:
      return "the kernel has no perf_event_open";
    default:
      return std::strerror(error);
  }
}

}  // namespace

HardwareCounts sum_of(std::span<const HardwareCounts> threads) {
  HardwareCounts sum = threads.front();
  for (const HardwareCounts& each : threads.subspan(1)) {
    for (std::size_t i = 0; i < sum.values.size(); ++i)
      sum.values[i] = sum.values[i] && each.values[i]
                          ? std::optional(*sum.values[i] + *each.values[i])
                          : std::nullopt;
    if (sum.missing.empty()) sum.missing = each.missing;
  }
  return sum;
}

HardwareCounters::HardwareCounters() {
  for (std::size_t i = 0; i < events.size(); ++i) {
    File opened = open(events[i]);
    if (opened)
      any_ = true;
    else
      errors_[i] = errno;
    files_[i] = std::move(opened);
  }
}

void HardwareCounters::resume() noexcept {
  if (any_) prctl(PR_TASK_PERF_EVENTS_ENABLE, 0, 0, 0, 0);
}

void HardwareCounters::pause() noexcept {
  if (any_) prctl(PR_TASK_PERF_EVENTS_DISABLE, 0, 0, 0, 0);
}

HardwareCounts HardwareCounters::read() const {
  HardwareCounts counts;
  std::map<std::string, std::string> absent;  // reason -> names
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (files_[i]) counts.values[i] = value_of(files_[i]);
    if (counts.values[i]) continue;
    std::string& named = absent[reason_of(errors_[i])];
    named += (named.empty() ? "" : ", ") + std::string(HardwareCounts::names[i]);
  }
  for (const auto& [reason, named] : absent)
    counts.missing += (counts.missing.empty() ? "" : "; ") + named + ": " + reason;
  return counts;
}

nlohmann::ordered_json record_of(const HardwareCounts& counts) {
  nlohmann::ordered_json counters = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < counts.values.size(); ++i) {
    auto& counter = counters[HardwareCounts::names[i]];
    if (counts.values[i]) counter = *counts.values[i];
  }
  nlohmann::ordered_json record = {{"counters", std::move(counters)}, {"missing", nullptr}};
  if (!counts.missing.empty()) record["missing"] = counts.missing;
  return record;
}

}  // namespace perdure::driver
