#include "core/suggest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace perdure {
namespace {

const std::vector<std::string> names{"fptree", "lbtree", "stdmap", "abslbtree", "null"};

TEST(Suggestion, FindsTheNearestNameWithinTwoEdits) {
  EXPECT_EQ(suggestion("fptre", names, "x"), "did you mean 'fptree'?");
  EXPECT_EQ(suggestion("fbtree", names, "x"), "did you mean 'fptree'?");
  EXPECT_EQ(suggestion("lb-tree", names, "x"), "did you mean 'lbtree'?");
  EXPECT_EQ(suggestion("nul", names, "x"), "did you mean 'null'?");
}

TEST(Suggestion, APrefixIsNoFartherThanItsEdits) {
  EXPECT_EQ(suggestion("fptre", std::vector<std::string>{"dptree", "fptree"}, "x"),
            "did you mean 'fptree'?");
}

TEST(Suggestion, TakesATellingPrefix) {
  EXPECT_EQ(suggestion("absl", names, "x"), "did you mean 'abslbtree'?");
  EXPECT_EQ(suggestion("std", names, "x"), "did you mean 'stdmap'?");
}

TEST(Suggestion, SaysTheOtherThingWhenNothingIsNear) {
  EXPECT_EQ(suggestion("rocksdb", names, "see list"), "see list");
  EXPECT_EQ(suggestion("", names, "see list"), "see list");
  EXPECT_EQ(suggestion("fptree", {}, "see list"), "see list");
}

}  // namespace
}  // namespace perdure
