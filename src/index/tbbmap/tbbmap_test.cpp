#include "index/reference/volatile_map_suite.h"

namespace perdure {
INSTANTIATE_TEST_SUITE_P(TbbMap, VolatileMap, testing::Values("tbbmap"));
}
