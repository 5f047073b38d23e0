// Registration of `abslbtree`: absl::btree_map behind a reader-writer lock. See design.md.
#include <absl/container/btree_map.h>

#include "index/reference/locked_map.h"

namespace perdure {

PERDURE_REGISTER_INDEX(abslbtree,
                       IndexInfo{
                           .name = "abslbtree",
                           .title = "absl::btree_map with a reader-writer lock (volatile)",
                           .index_class = IndexClass::in_memory,
                           .create_integer = create_locked_map<IntegerKeys, absl::btree_map>,
                           .create_bytes = create_locked_map<ByteKeys, absl::btree_map>,
                       });

}  // namespace perdure
