#include <gtest/gtest.h>

#include <string>

#include "index/registry.h"

namespace perdure {
namespace {

const IndexInfo& info() { return *IndexRegistry::find("null").value(); }

TEST(Null, SaysThatItCannotBeVerified) {
  EXPECT_EQ(info().index_class, IndexClass::harness);
  EXPECT_FALSE(info().verifiable);
}

TEST(Null, AnswersOkAndKeepsNothing) {
  const auto index = std::move(create_index<IntegerKeys>(info(), {}).value());
  std::uint64_t value = 0;
  EXPECT_EQ(index->insert(1, 2), Outcome::ok);
  EXPECT_EQ(index->insert(1, 2), Outcome::ok);
  EXPECT_EQ(index->remove(7), Outcome::ok);
  EXPECT_EQ(index->lookup(5, value), Outcome::ok);
  EXPECT_EQ(value, 5U);
  IntegerScan scan;
  scan.append(1, 1);
  EXPECT_EQ(index->scan(0, 10, scan), 0U);
  EXPECT_EQ(scan.size(), 0U);
  EXPECT_EQ(index->size(), 0U);
}

TEST(Null, OffersByteStrings) {
  const auto index = std::move(create_index<ByteKeys>(info(), {}).value());
  std::string value;
  EXPECT_EQ(index->lookup("key", value), Outcome::ok);
  EXPECT_EQ(value, "key");
}

}  // namespace
}  // namespace perdure
