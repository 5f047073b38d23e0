#include "driver/topology.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>

#include "core/limits.h"

namespace perdure::driver {
namespace {

constexpr unsigned mask_word_bits = sizeof(unsigned long) * CHAR_BIT;

unsigned read_number(const std::string& path, unsigned fallback) {
  std::ifstream file(path);
  unsigned number = 0;
  return file >> number ? number : fallback;
}

}  // namespace

CpuSet::CpuSet(std::span<const unsigned> cpus) {
  for (const unsigned cpu : cpus) {
    if (cpu / mask_word_bits >= words_.size()) words_.resize(cpu / mask_word_bits + 1);
    words_[cpu / mask_word_bits] |= 1UL << cpu % mask_word_bits;
  }
}

std::optional<CpuSet> CpuSet::of_this_thread() {
  constexpr std::size_t most_words = (1U << 20) / mask_word_bits;
  CpuSet set({});
  // The kernel refuses a mask that is shorter than its own.
  for (std::size_t words = 16; words <= most_words; words *= 2) {
    set.words_.assign(words, 0);
    const long bytes =
        syscall(SYS_sched_getaffinity, 0, words * sizeof(unsigned long), set.words_.data());
    if (bytes >= 0) {
      while (!set.words_.empty() && set.words_.back() == 0) set.words_.pop_back();
      return set;
    }
    if (errno != EINVAL) break;
  }
  return std::nullopt;
}

std::vector<unsigned> CpuSet::cpus() const {
  std::vector<unsigned> list;
  for (unsigned cpu = 0; cpu < words_.size() * mask_word_bits; ++cpu)
    if ((words_[cpu / mask_word_bits] >> cpu % mask_word_bits & 1) != 0) list.push_back(cpu);
  return list;
}

bool CpuSet::apply() const noexcept {
  return syscall(SYS_sched_setaffinity, 0, words_.size() * sizeof(unsigned long), words_.data()) ==
         0;
}

std::vector<Core> usable_cores(const std::string& sysfs) {
  const std::optional<CpuSet> allowed = CpuSet::of_this_thread();
  if (!allowed) return {Core{}};
  std::vector<Core> cores;
  for (const unsigned cpu : allowed->cpus()) {
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

bool pin_this_thread(unsigned cpu) noexcept { return CpuSet({&cpu, 1}).apply(); }

Confined::Confined(std::span<const unsigned> cpus) noexcept {
  if (cpus.empty()) return;
  before_ = CpuSet::of_this_thread();
  if (before_ && !CpuSet(cpus).apply()) before_.reset();
}

Confined::~Confined() {
  if (before_) before_->apply();
}

}  // namespace perdure::driver
