#include "index/reference/volatile_map_suite.h"

namespace perdure {
INSTANTIATE_TEST_SUITE_P(AbslBtree, VolatileMap, testing::Values("abslbtree"));
}
