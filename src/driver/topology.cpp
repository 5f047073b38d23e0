#include "driver/topology.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>

#include "core/limits.h"

namespace perdure::driver {
namespace {

unsigned read_number(const std::string& path, unsigned fallback) {
  std::ifstream file(path);
  unsigned number = 0;
  return file >> number ? number : fallback;
}

}  // namespace

std::vector<Core> usable_cores(const std::string& sysfs) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<Core> cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {Core{}};
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string folder =
        sysfs + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.push_back({cpu, read_number(folder + "physical_package_id", 0),
                     read_number(folder + "core_id", cpu)});
  }
  return cores;
}

unsigned cores_to_use(const std::string& root) {
  const auto cores = static_cast<unsigned>(usable_cores(root + "/sys").size());
  const auto quota = cpu_quota(root);
  if (!quota || quota->cores >= cores) return cores;
  return std::max(1U, static_cast<unsigned>(std::ceil(quota->cores)));
}

std::vector<unsigned> pinning_order(std::span<const Core> cores) {
  // rank: how many CPUs of the same physical core come before this one.
  using Place = std::tuple<unsigned, unsigned, unsigned, unsigned>;
  std::map<std::pair<unsigned, unsigned>, unsigned> seen;
  std::vector<Core> by_number(cores.begin(), cores.end());
  std::ranges::sort(by_number, {}, &Core::number);
  std::vector<Place> places;
  for (const Core& core : by_number) {
    const unsigned rank = seen[{core.package, core.core_id}]++;
    places.emplace_back(rank, core.package, core.core_id, core.number);
  }
  std::ranges::sort(places);
  std::vector<unsigned> order;
  for (const Place& place : places) order.push_back(std::get<3>(place));
  return order;
}

bool pin_this_thread(unsigned cpu) noexcept {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

Confined::Confined(std::span<const unsigned> cpus) noexcept {
  if (cpus.empty() || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  cpu_set_t those;
  CPU_ZERO(&those);
  for (const unsigned cpu : cpus) CPU_SET(cpu, &those);
  set_ = sched_setaffinity(0, sizeof those, &those) == 0;
}

Confined::~Confined() {
  if (set_) static_cast<void>(sched_setaffinity(0, sizeof before_, &before_));
}

}  // namespace perdure::driver
