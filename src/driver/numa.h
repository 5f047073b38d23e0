// NUMA nodes, without a library: which CPUs a node has, and on which node a page lies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perdure::driver {

struct NumaNode {
  unsigned number = 0;
  std::vector<unsigned> cpus;  ///< those that this process may use
};

/// "0-3,8,10-11" as numbers; empty when the text is not such a list.
[[nodiscard]] std::vector<unsigned> parse_cpu_list(const std::string& text);

/// The nodes that have CPUs this process may run on. A kernel that does not tell has one.
[[nodiscard]] std::vector<NumaNode> numa_nodes(const std::string& sysfs = "/sys");

/// A node with memory and without any CPU, as CXL memory is shown.
struct MemoryNode {
  unsigned number = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const MemoryNode&, const MemoryNode&) = default;
};
[[nodiscard]] std::vector<MemoryNode> memory_nodes(const std::string& sysfs = "/sys");

/// The node of a page that is present.
[[nodiscard]] std::optional<unsigned> node_of_page(const void* address);

/// Threads on one node and memory on another.
struct NodesApart {
  NumaNode threads;
  unsigned memory = 0;
};
/// The first node with memory, and the last other one with CPUs; where there is no such, the last
/// node with memory, and that with CPUs. Empty: there are no two nodes.
[[nodiscard]] std::optional<NodesApart> nodes_apart(const std::string& sysfs = "/sys");

/// New pages of the calling thread, and of those it starts, come from this node only. False when
/// the system refuses.
bool take_memory_from(unsigned node) noexcept;

/// Lets the calling thread run on these CPUs only. False when the system refuses.
bool run_on(const std::vector<unsigned>& cpus) noexcept;

}  // namespace perdure::driver
