// Registration of `stdmap`: std::map behind a reader-writer lock. See design.md.
#include <map>

#include "index/reference/locked_map.h"

namespace perdure {

PERDURE_REGISTER_INDEX(stdmap, IndexInfo{
                                   .name = "stdmap",
                                   .title = "std::map with a reader-writer lock (volatile)",
                                   .index_class = IndexClass::in_memory,
                                   .create_integer = create_locked_map<IntegerKeys, std::map>,
                                   .create_bytes = create_locked_map<ByteKeys, std::map>,
                               });

}  // namespace perdure
