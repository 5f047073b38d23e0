#include "driver/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "driver/topology.h"

namespace perdure::driver {
namespace {

constexpr unsigned most_nodes = 1024;  // as Linux is built at most
constexpr unsigned word_bits = sizeof(unsigned long) * CHAR_BIT;

std::string folder_of(const std::string& sysfs, unsigned node) {
  return sysfs + "/devices/system/node/node" + std::to_string(node);
}

std::vector<unsigned> node_numbers(const std::string& sysfs) {
  std::vector<unsigned> numbers;
  std::error_code ignored;
  for (unsigned number = 0; number < most_nodes; ++number)
    if (std::filesystem::exists(folder_of(sysfs, number), ignored)) numbers.push_back(number);
  return numbers;
}

std::vector<unsigned> listed_in(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return parse_cpu_list(text);
}

// "Node 2 MemTotal:  134217728 kB"
std::uint64_t memory_of(const std::string& folder) {
  std::ifstream file(folder + "/meminfo");
  for (std::string word; file >> word;)
    if (std::uint64_t kibibytes = 0; word == "MemTotal:" && file >> kibibytes)
      return kibibytes << 10;
  return 0;
}

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
  for (const unsigned number : node_numbers(sysfs)) {
    const std::vector<unsigned> listed = listed_in(folder_of(sysfs, number) + "/cpulist");
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
  const std::vector<unsigned> with_memory = listed_in(sysfs + "/devices/system/node/has_memory");
  unsigned memory = with_memory.empty() ? with_cpus.front().number : with_memory.front();
  if (with_cpus.back().number == memory && !with_memory.empty()) memory = with_memory.back();
  if (with_cpus.back().number == memory) return std::nullopt;
  return NodesApart{with_cpus.back(), memory};
}

std::vector<MemoryNode> memory_nodes(const std::string& sysfs) {
  std::vector<MemoryNode> nodes;
  for (const unsigned number : node_numbers(sysfs)) {
    const std::string folder = folder_of(sysfs, number);
    const std::uint64_t bytes = memory_of(folder);
    if (bytes != 0 && listed_in(folder + "/cpulist").empty()) nodes.push_back({number, bytes});
  }
  return nodes;
}

bool take_memory_from(unsigned node) noexcept {
  if (node >= most_nodes) return false;
  std::array<unsigned long, most_nodes / word_bits> nodes{};
  nodes[node / word_bits] = 1UL << node % word_bits;
  // The kernel looks at one bit less than it is told of.
  return syscall(SYS_set_mempolicy, MPOL_BIND, nodes.data(), most_nodes + 1) == 0;
}

std::optional<unsigned> node_of_page(const void* address) {
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0, address, MPOL_F_NODE | MPOL_F_ADDR) != 0 ||
      node < 0)
    return std::nullopt;
  return static_cast<unsigned>(node);
}

bool run_on(const std::vector<unsigned>& cpus) noexcept { return CpuSet(cpus).apply(); }

}  // namespace perdure::driver
