#include "index/reference/test_volatile_map.h"

namespace perdure {
INSTANTIATE_TEST_SUITE_P(AbslBtree, VolatileMap, testing::Values("abslbtree"));
}
