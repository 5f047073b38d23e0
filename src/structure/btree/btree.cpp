// B-tree: structure/tree/balanced_tree.h, with values in the nodes or beside them.
#include "structure/base/modes.h"
#include "structure/tree/operations.h"

namespace perdure::structure {
namespace {

struct BtreeFamily {
  template <class Memory>
  [[nodiscard]] static std::unique_ptr<Structure> make(const IndexPlace& place) {
    if (place.options.get("embedded") != 0)
      return std::make_unique<BalancedTree<Memory, BtreeEmbedded>>(place.pool);
    return std::make_unique<BalancedTree<Memory, BtreeReferenced>>(place.pool);
  }
};

PERDURE_REGISTER_INDEX(
    btree, IndexInfo{.name = "btree",
                     .title = "B-tree (Islam et al., MSST 2020)",
                     .options = options({{.name = "embedded",
                                          .description = "1: values in the nodes, 0: beside them",
                                          .fallback = 0,
                                          .least = 0,
                                          .most = 1}}),
                     .modes = modes<BtreeFamily>(Tearing::structure)});

}  // namespace
}  // namespace perdure::structure
