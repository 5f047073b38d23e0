// PoolPart: where a part of a pool lies, for a simulated machine.
#pragma once

namespace perdure::pm {

inline constexpr unsigned any_node = ~0U;

struct PoolPart {
  static constexpr unsigned none = ~0U;

  unsigned node = any_node;  ///< whose memory it is; any: where the machine has its pool
  unsigned number = none;    ///< of a pool with parts, whose traffic is counted apart
  bool in_dram = false;      ///< in the node's DRAM instead of the pool's kind of memory
};

}  // namespace perdure::pm
