#include "index/reference/volatile_map_suite.h"

namespace perdure {
INSTANTIATE_TEST_SUITE_P(StdMap, VolatileMap, testing::Values("stdmap"));
}
