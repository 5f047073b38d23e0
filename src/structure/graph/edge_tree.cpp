#include "structure/graph/edge_tree.h"

#include "structure/base/modes.h"
#include "structure/tree/operations.h"

namespace perdure::structure {
namespace {

PERDURE_REGISTER_INDEX(edge_tree,
                       IndexInfo{
                           .name = EdgeTreeKind::name,
                           .title = "Graph: edges as keys of a B+-tree (Islam et al., MSST 2020)",
                           .options = options(),
                           .modes = modes<Family<EdgeTree>>(Tearing::structure)});

}  // namespace
}  // namespace perdure::structure
