// Recovery of a TLog list: what the links and the logs say together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockfree/list/links.h"
#include "lockfree/tlog/log.h"

namespace perdure::lockfree {

class TLogRecovery {
 public:
  TLogRecovery(NodeSlab& slab, Link& head, std::span<Log> logs);
  /// Finds the nodes of the list, links them and clears the logs. A power cut on the way leaves
  /// what it can begin again from. Null, or what is wrong.
  [[nodiscard]] const char* run();

 private:
  /// How a node was found.
  enum class Found : std::uint8_t { no, by_log, by_link };
  struct Member {
    std::uint64_t key;
    std::uint64_t offset;
    Found found;
  };

  [[nodiscard]] bool counts(const Log& log) const noexcept;
  void mark_removals();
  /// Follows links from a node, or the head's, up to what is found already.
  [[nodiscard]] bool follow(std::uint64_t offset, Found found);
  [[nodiscard]] const char* choose(std::vector<Member>& members) const;
  void relink(std::span<const Member> members);
  /// Free nodes that a power cut left without a mark: T1 counts on it.
  void mark_free_nodes();
  void clear_logs();

  NodeSlab& slab_;
  Link& head_;
  std::span<Log> logs_;
  std::vector<Found> found_;  ///< by node
};

}  // namespace perdure::lockfree
