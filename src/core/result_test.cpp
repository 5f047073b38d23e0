#include "core/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace perdure {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  Result<int> good = 7;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  const Result<int> bad = Error{ErrorCode::corrupt, "broken", "/p", "mend it"};
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::corrupt);
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 3);
}

TEST(Result, OfVoidIsSuccessUnlessGivenAnError) {
  EXPECT_TRUE(Result<void>().ok());
  EXPECT_EQ(Result<void>(Error{ErrorCode::busy, "", "", ""}).error().code, ErrorCode::busy);
}

TEST(Error, IsOneLineOfWhereWhatAndRemedy) {
  EXPECT_EQ((Error{ErrorCode::io, "cannot open", "/p", "check it"}.line()),
            "/p: cannot open; check it");
  EXPECT_EQ((Error{ErrorCode::io, "cannot open", "", ""}.line()), "cannot open");
}

TEST(ResultDeathTest, AskingForWhatIsNotThereStopsTheProgram) {
  const Result<int> bad = Error{};
  const Result<int> good = 1;
  if constexpr (checked_build) {
    EXPECT_DEATH(static_cast<void>(bad.value()), "assertion failed: ok");
    EXPECT_DEATH(static_cast<void>(good.error()), "assertion failed");
  }
}

}  // namespace
}  // namespace perdure
