// B+-tree: structure/tree/balanced_tree.h, with values led to from the leaves.
#include "structure/base/modes.h"
#include "structure/tree/operations.h"

namespace perdure::structure {
namespace {

template <class Memory>
using Bplustree = BalancedTree<Memory, BplusTree>;

PERDURE_REGISTER_INDEX(bplustree, IndexInfo{.name = "bplustree",
                                            .title = "B+-tree (Islam et al., MSST 2020)",
                                            .options = options(),
                                            .modes = modes<Family<Bplustree>>(Tearing::structure)});

}  // namespace
}  // namespace perdure::structure
