#include "index/reference/test_volatile_map.h"

namespace perdure {
INSTANTIATE_TEST_SUITE_P(StdMap, VolatileMap, testing::Values("stdmap"));
}
