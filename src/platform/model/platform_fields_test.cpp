#include "platform/model/platform_fields.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace perdure::platform {
namespace {

TEST(PlatformFields, NameEachMemberOnceAndReadBackWhatWasSet) {
  std::set<std::string> names;
  for (const PlatformField& field : platform_fields()) {
    EXPECT_TRUE(names.insert(std::string(field.section) + "." + std::string(field.key)).second);
    for (const double value : {field.minimum, field.maximum}) {
      Platform platform;
      field.set(platform, value);
      EXPECT_EQ(field.get(platform), value) << field.key;
      Platform untouched;
      for (const PlatformField& other : platform_fields())
        if (&other != &field) {
          EXPECT_EQ(other.get(platform), other.get(untouched)) << field.key << " set " << other.key;
        }
    }
  }
}

TEST(PlatformFields, DefaultsLieWithinTheirRanges) {
  const Platform platform;
  for (const PlatformField& field : platform_fields()) {
    EXPECT_GE(field.get(platform), field.minimum) << field.key;
    EXPECT_LE(field.get(platform), field.maximum) << field.key;
  }
}

TEST(PlatformFields, CarryTheirUnitInTheKey) {
  const std::set<std::string_view> units{"", "B", "GHz", "cycles", "ns", "GB/s"};
  for (const PlatformField& field : platform_fields()) {
    EXPECT_TRUE(units.contains(field.unit)) << field.key;
    if (field.unit == "ns") {
      EXPECT_TRUE(field.key.ends_with("_ns")) << field.key;
    }
    if (field.unit == "cycles") {
      EXPECT_TRUE(field.key.ends_with("_cycles")) << field.key;
    }
  }
}

}  // namespace
}  // namespace perdure::platform
