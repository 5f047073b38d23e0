// The table of flags: what each kind of value reads, and who overrides whom.
#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "pool/pool.h"

namespace perdure::cli {
namespace {

using ::testing::ElementsAre;

template <class T>
std::string refusal(const Kind<T>& kind, const std::string& text) {
  const auto read = kind.read(text, "--flag");
  return read ? "read" : read.error().line();
}

TEST(Values, ReadUnitsAndSayTheirRange) {
  EXPECT_EQ(count(1, 2000).read("1k", "--flag").value(), 1000U);
  EXPECT_EQ(bytes().read("64KiB", "--flag").value(), 65'536U);
  EXPECT_EQ(number(0, 1).read("0.5", "--flag").value(), 0.5);
  EXPECT_EQ(refusal(count(1, 8), "9"), "--flag 9: out of range; give 1 to 8");
  EXPECT_EQ(refusal(count(1), "0"), "--flag 0: out of range; give 1 or more");
  EXPECT_EQ(refusal(bytes(8, 65'536), "7"), "--flag 7: out of range; give 8B to 64KiB");
  EXPECT_EQ(refusal(number(0, 1), "1.5"), "--flag 1.5: out of range; give 0 to 1");
  EXPECT_EQ(refusal(number(), "nan"), "--flag: 'nan' is not a number; write it as 5 or 0.5");
  for (const std::string& said :
       {refusal(count(), "1,2"), refusal(bytes(), "1k,2k"), refusal(number(), "1,2")})
    EXPECT_EQ(said, "--flag: takes one value; give one of them");
}

TEST(Values, AreCalledAsTheirTypeCallsThem) {
  const auto kind = one_of(std::array{HeapKind::slab, HeapKind::pmdk});
  EXPECT_EQ(kind.read("pmdk", "--heap").value(), HeapKind::pmdk);
  EXPECT_THAT(kind.choices, ElementsAre("slab", "pmdk"));
  EXPECT_EQ(refusal(kind, "slap"), "--flag: 'slap' is not known; did you mean 'slab'?");
  EXPECT_EQ(refusal(kind, "heap"), "--flag: 'heap' is not known; give one of slab, pmdk");
}

struct Example {
  Example() {
    table.group("First");
    table.add("--name", text(), name, "a name");
    table.add("--size", count(), size, "a size");
    table.add_list("--sizes", count(), sizes, "sizes");
    table.group("Second");
    table.add_switch("--fast", fast, "fast");
    table.add_switch("--no-fast", fast, "slow", false);
    table.add_repeated("--more", text(), more, "more");
  }
  FlagTable table{"example", "An example."};
  std::string name;
  std::uint16_t size = 1;
  std::vector<unsigned> sizes;
  bool fast = true;
  std::vector<std::string> more;
};

TEST(Flags, OverrideDefaultsThatAreSetAfterParsing) {
  Example example;
  ASSERT_FALSE(example.table.parse(
      {"--name", "x", "--size", "7", "--sizes", "1,2", "--no-fast", "--more", "a", "--more", "b"}));
  EXPECT_EQ(example.name, "x");
  EXPECT_EQ(example.size, 1);
  example.size = 3;
  example.fast = true;
  ASSERT_TRUE(example.table.assign().ok());
  EXPECT_EQ(example.size, 7);
  EXPECT_FALSE(example.fast);
  EXPECT_THAT(example.sizes, ElementsAre(1, 2));
  EXPECT_THAT(example.more, ElementsAre("a", "b"));
}

TEST(Flags, SayWhichWereGivenAndHow) {
  Example example;
  ASSERT_FALSE(example.table.parse({"--size", "7", "--no-fast"}));
  EXPECT_TRUE(example.table.given("--size"));
  EXPECT_FALSE(example.table.given("--name"));
  EXPECT_EQ(example.table.written("--size"), "--size 7");
  EXPECT_EQ(example.table.written("--name"), "--name");
  EXPECT_EQ(example.table.first_given("Second"), "--no-fast");
}

TEST(Flags, RefuseWhatTheirFieldCannotHold) {
  Example example;
  ASSERT_FALSE(example.table.parse({"--size", "65536"}));
  const auto assigned = example.table.assign();
  ASSERT_FALSE(assigned.ok());
  EXPECT_EQ(assigned.error().line(), "--size 65536: out of range; give 65535 or less");
}

TEST(Flags, AreListedAsTheyAreDeclared) {
  const auto list = Example().table.json();
  ASSERT_EQ(list.size(), 6U);
  EXPECT_EQ(list[1]["name"], "--size");
  EXPECT_EQ(list[1]["kind"], "count");
  EXPECT_EQ(list[3]["group"], "Second");
  EXPECT_TRUE(list[5]["repeats"].get<bool>());
}

}  // namespace
}  // namespace perdure::cli
