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

TEST(ResultDeathTest, AskingForWhatIsNotThereSaysTheErrorAndStopsTheProgramInEveryBuild) {
  const Error error{ErrorCode::not_found, "no such pool", "/p", "check the path"};
  const char* const line = "perdure: there is no value: /p: no such pool; check the path";
  Result<std::string> bad = error;
  EXPECT_DEATH(static_cast<void>(bad.value()), line);
  EXPECT_DEATH(static_cast<void>(std::move(bad).value()), line);
  EXPECT_DEATH(static_cast<void>(*bad), line);
  EXPECT_DEATH(static_cast<void>(bad->size()), line);
  EXPECT_DEATH(Result<void>(error).value(), line);
  EXPECT_DEATH(static_cast<void>(Result<int>(1).error()), "there is no error");
  EXPECT_DEATH(static_cast<void>(Result<void>().error()), "there is no error");
}

}  // namespace
}  // namespace perdure
