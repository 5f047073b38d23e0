#include "driver/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "driver/topology.h"

namespace perdure::driver {
namespace {

constexpr unsigned most_nodes = 64;

}  // namespace

std::vector<unsigned> parse_cpu_list(const std::string& text) {
  std::vector<unsigned> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end && *at != '\n') {
    unsigned first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc{}) return {};
    unsigned last = first;
    at = read.ptr;
    if (at < end && *at == '-') {
      read = std::from_chars(at + 1, end, last);
      if (read.ec != std::errc{} || last < first || last - first > 65536) return {};
      at = read.ptr;
    }
    for (unsigned cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (at < end && *at == ',') ++at;
  }
  return cpus;
}

std::vector<NumaNode> numa_nodes(const std::string& sysfs) {
  const std::vector<unsigned> usable = pinning_order(usable_cores(sysfs));
  std::vector<NumaNode> nodes;
  for (unsigned number = 0; number < most_nodes; ++number) {
    std::ifstream file(sysfs + "/devices/system/node/node" + std::to_string(number) + "/cpulist");
    std::string text;
    if (!std::getline(file, text)) continue;
    const std::vector<unsigned> listed = parse_cpu_list(text);
    NumaNode node{number, {}};
    for (const unsigned cpu : usable)  // in the order in which threads are to be pinned
      if (std::ranges::find(listed, cpu) != listed.end()) node.cpus.push_back(cpu);
    if (!node.cpus.empty()) nodes.push_back(std::move(node));
  }
  if (nodes.empty()) nodes.push_back({0, usable});
  return nodes;
}

std::optional<NodesApart> nodes_apart(const std::string& sysfs) {
  const std::vector<NumaNode> with_cpus = numa_nodes(sysfs);
  std::ifstream file(sysfs + "/devices/system/node/has_memory");
  std::string text;
  std::getline(file, text);
  const std::vector<unsigned> with_memory = parse_cpu_list(text);
  const unsigned memory = with_memory.empty() ? with_cpus.front().number : with_memory.front();
  if (with_cpus.back().number == memory) return std::nullopt;
  return NodesApart{with_cpus.back(), memory};
}

bool take_memory_from(unsigned node) noexcept {
  if (node >= most_nodes) return false;
  const unsigned long nodes = 1UL << node;
  // The kernel looks at one bit less than it is told of.
  return syscall(SYS_set_mempolicy, MPOL_BIND, &nodes, most_nodes + 1) == 0;
}

std::optional<unsigned> node_of_page(const void* address) {
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0, address, MPOL_F_NODE | MPOL_F_ADDR) != 0 ||
      node < 0)
    return std::nullopt;
  return static_cast<unsigned>(node);
}

bool run_on(const std::vector<unsigned>& cpus) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace perdure::driver
