#include "platform/description/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perdure::platform {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Platform two_by_two(unsigned threads_per_core) {
  Platform platform;
  platform.name = "small";
  platform.cpu.sockets = 2;
  platform.cpu.cores_per_socket = 2;
  platform.cpu.threads_per_core = threads_per_core;
  return platform;
}

TEST(Placement, NodesListsAndRangesKeepTheirOrder) {
  const Platform platform = two_by_two(2);
  EXPECT_THAT(parse_cpus("node0", platform).value(), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(parse_cpus("node1", platform).value(), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(parse_cpus("7,0-2", platform).value(), ElementsAre(7, 0, 1, 2));
  EXPECT_THAT(parse_cpus("node1,0", platform).value(), ElementsAre(2, 3, 6, 7, 0));
  EXPECT_THAT(default_cpus(two_by_two(1)), ElementsAre(0, 1, 2, 3));
}

TEST(Placement, WhatThePlatformHasNotIsRefused) {
  const Platform platform = two_by_two(1);
  for (const char* text : {"", "node", "node2", "node-1", "4", "0-4", "2-1", "x", "0,,1", "0,0",
                           "node0,1", "-1", "99999999999", "0-"}) {
    const auto cpus = parse_cpus(text, platform);
    ASSERT_FALSE(cpus.ok()) << text;
    EXPECT_EQ(cpus.error().code, ErrorCode::usage);
    EXPECT_THAT(cpus.error().where, HasSubstr("--cpus"));
    EXPECT_FALSE(cpus.error().remedy.empty());
  }
  EXPECT_THAT(parse_cpus("4", platform).error().remedy, HasSubstr("CPUs 0 to 3"));
}

TEST(Placement, AblationsAreNamedBothWays) {
  for (const std::string& name : ablation_names()) {
    const std::vector<std::string> one = {name};
    EXPECT_EQ(names_of(parse_ablations(one).value()), one);
  }
  const std::vector<std::string> list = {"no-wear-levelling,no-directory", "no-directory"};
  EXPECT_THAT(names_of(parse_ablations(list).value()),
              ElementsAre("no-directory", "no-wear-levelling"));
  const std::vector<std::string> wrong = {"no-directry"};
  EXPECT_THAT(parse_ablations(wrong).error().remedy, HasSubstr("did you mean 'no-directory'?"));
}

}  // namespace
}  // namespace perdure::platform
