#include "index/reference/test_volatile_map.h"

namespace perdure {
INSTANTIATE_TEST_SUITE_P(TbbMap, VolatileMap, testing::Values("tbbmap"));
}
