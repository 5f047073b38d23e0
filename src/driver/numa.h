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

/// Reads a list like "0-3,8,10-11"; empty when the text is no such list.
[[nodiscard]] std::vector<unsigned> parse_cpu_list(const std::string& text);

/// The nodes that have CPUs this process may run on; one node where the kernel lists none.
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
/// Threads: the last node with CPUs. Memory: the first node with memory, or the last where that is
/// the threads' own. Empty where all memory lies on the threads' node.
[[nodiscard]] std::optional<NodesApart> nodes_apart(const std::string& sysfs = "/sys");

/// New pages of the calling thread, and of those it starts, come from this node only. False when
/// the system refuses.
bool take_memory_from(unsigned node) noexcept;

/// Lets the calling thread run on these CPUs only. False when the system refuses.
bool run_on(const std::vector<unsigned>& cpus) noexcept;

}  // namespace perdure::driver
