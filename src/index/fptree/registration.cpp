#include "index/fptree/fptree.h"

namespace perdure::fptree {
namespace {

PERDURE_REGISTER_INDEX(
    fptree,
    IndexInfo{.name = "fptree",
              .title = "FPTree (Oukid et al., SIGMOD 2016)",
              .index_class = IndexClass::persistent,
              .ordered = true,
              .verifiable = true,
              .options = {{.name = "leaf_entries",
                           .description = "records a leaf holds; part of the layout",
                           .fallback = max_leaf_entries,
                           .least = min_leaf_entries,
                           .most = max_leaf_entries},
                          {.name = "inner_entries",
                           .description = "separators an inner node holds; free at every start",
                           .fallback = 128,
                           .least = 3,
                           .most = 1024},
                          {.name = "update_in_place",
                           .description = "1: an update stores the 8-byte value word where it is; "
                                          "0: as published, a new slot and one commit word",
                           .fallback = 0,
                           .least = 0,
                           .most = 1}},
              .create_integer = FpTree<IntegerKeys>::create,
              .create_bytes = FpTree<ByteKeys>::create,
              .recover_integer = FpTree<IntegerKeys>::recover,
              .recover_bytes = FpTree<ByteKeys>::recover});

}  // namespace
}  // namespace perdure::fptree
