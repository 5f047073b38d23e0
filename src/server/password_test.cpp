#include "server/password.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace perdure::server {
namespace {

using ::testing::HasSubstr;

class PasswordFile : public ::testing::Test {
 protected:
  Result<Password> read(const std::string& content, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::trunc) << content;
    chmod(path_.c_str(), mode);
    return Password::read(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_ = ::testing::TempDir() + "perdure_password_" + std::to_string(getpid());
};

TEST_F(PasswordFile, TheFirstLineIsThePassword) {
  EXPECT_TRUE(read("open sesame\nsecond\n").value().matches("open sesame"));
  EXPECT_TRUE(read("open sesame").value().matches("open sesame"));
  EXPECT_TRUE(read("open sesame\r\n", 0640).value().matches("open sesame"));
  EXPECT_FALSE(read("open sesame").value().matches("open sesam"));
  EXPECT_FALSE(read("open sesame").value().matches(""));
}

TEST_F(PasswordFile, IsRefusedWhereOthersReadItOrNothingIsInIt) {
  EXPECT_THAT(read("secret", 0644).error().line(), HasSubstr("run chmod 600"));
  EXPECT_THAT(read("secret", 0602).error().line(), HasSubstr("run chmod 600"));
  EXPECT_THAT(read("").error().line(), HasSubstr("is empty"));
  EXPECT_THAT(read("\nsecret").error().line(), HasSubstr("is empty"));
  EXPECT_THAT(read(std::string(2000, 'x')).error().line(), HasSubstr("longer than"));
  EXPECT_THAT(Password::read(path_ + ".absent").error().line(), HasSubstr("No such file"));
  EXPECT_THAT(Password::read("/").error().line(), HasSubstr("no regular file"));
}

}  // namespace
}  // namespace perdure::server
