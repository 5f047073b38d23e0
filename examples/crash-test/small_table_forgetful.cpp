// The table that forgets a flush: the crash test finds it.
#include "small_table.h"

PERDURE_REGISTER_INDEX(small_table,
                       perdure::IndexInfo{.name = "small_table",
                                          .title = "a table on persistent memory, forgetful",
                                          .ordered = false,
                                          .options = {},
                                          .create_integer = SmallTable<true>::create,
                                          .recover_integer = SmallTable<true>::recover});
