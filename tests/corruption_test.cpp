// Damaged pools, on the slab heap, where every byte after the header is the index's own;
// libpmemobj's own data are libpmemobj's to check.
#include "support/corruption.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "support/dispatch.h"

namespace perdure::testing {
namespace {

std::vector<Target> slab_targets() {
  auto list = pool_targets();
  std::erase_if(list, [](const Target& target) { return target.heap != HeapKind::slab; });
  return list;
}

class Corruption : public ::testing::TestWithParam<Target> {};

TEST_P(Corruption, is_an_error_or_harmless) {
  const CorruptionPlan plan{.seed = seed_or(41), .trials = static_cast<unsigned>(scaled(150, 20))};
  const auto done = for_kind(GetParam().kind, [&](auto keys) {
    return check_corruption<decltype(keys)>(GetParam(), plan);
  });
  ASSERT_TRUE(done.ok()) << done.error().line();
  EXPECT_GT(done.value().refused, 0U) << "no damage was noticed";
  EXPECT_GT(done.value().working + done.value().differing, 0U) << "every pool was refused";
  const CorruptionReport& report = done.value();
  std::printf("%-40s refused %3u, as before %3u, unnoticed %3u\n", GetParam().name().c_str(),
              report.refused, report.working, report.differing);
}

INSTANTIATE_TEST_SUITE_P(Indexes, Corruption, ::testing::ValuesIn(slab_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Corruption);

}  // namespace
}  // namespace perdure::testing
