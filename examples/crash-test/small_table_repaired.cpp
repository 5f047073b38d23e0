// The table that flushes what it inserts.
#include "small_table.h"

PERDURE_REGISTER_INDEX(small_table,
                       perdure::IndexInfo{.name = "small_table",
                                          .title = "a table on persistent memory, repaired",
                                          .ordered = false,
                                          .options = {},
                                          .create_integer = SmallTable<false>::create,
                                          .recover_integer = SmallTable<false>::recover});
