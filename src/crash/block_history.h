// BlockHistory: which operation reserved each live block of a heap.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crash/layout.h"
#include "crash/subject.h"

namespace perdure::crash {

class BlockHistory {
 public:
  using Operation = std::optional<std::uint32_t>;  ///< by its number; none: before the first

  /// Blocks that are live now, and were not when it was last called, are `operation`'s. Slow.
  void note(const Instance& instance, Operation operation);
  [[nodiscard]] Operation of(std::uint64_t offset) const;

 private:
  std::map<std::uint64_t, Operation> live_;
};

/// How many blocks are live, and how many of them recovery reaches, is not the same.
enum class BlockFault : std::uint8_t { none, leak, double_free };
[[nodiscard]] inline BlockFault fault_of(std::uint64_t live, std::uint64_t reached) noexcept {
  return live == reached  ? BlockFault::none
         : live > reached ? BlockFault::leak
                          : BlockFault::double_free;
}

/// A block that is live and not reachable, or the other way round.
struct FaultyBlock {
  Heap::Extent block;
  bool leaks = true;                    ///< live and not reachable; else reachable and free
  BlockHistory::Operation reserved_by;  ///< of the run, or of the continued workload
  std::uint32_t first_store = ~0U;      ///< event of the run: the first store to it from there on
};

/// Those in `live` and not in `reached`, and the other way round; both ascend.
[[nodiscard]] std::vector<FaultyBlock> differing_blocks(std::span<const Heap::Extent> live,
                                                        std::span<const Heap::Extent> reached);

/// "leak: the heap holds 14 blocks, recovery reaches 13: 64 bytes at pool offset 66048 (node)"; of
/// `name_operation(number)` what it says. Empty where both are as many.
using NameOperation = std::function<std::string(std::uint32_t operation)>;
[[nodiscard]] std::string tell_difference(const Subject& subject, std::uint64_t live,
                                          std::uint64_t reached,
                                          std::span<const FaultyBlock> blocks,
                                          const NameOperation& name_operation);

}  // namespace perdure::crash
