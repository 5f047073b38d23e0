#include "core/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace perdure {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() {
    std::string name = (fs::temp_directory_path() / "perdure_output.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name = "out") const { return folder_ / name; }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

OutputFile must_open(const std::string& path) {
  auto file = OutputFile::open(path);
  EXPECT_TRUE(file.ok()) << file.error().line();
  return std::move(file).value();
}

TEST_F(OutputFileTest, TheOldContentStaysUntilTheNewIsWhole) {
  std::ofstream(path()) << "old";
  ASSERT_EQ(chmod(path().c_str(), 0640), 0);
  {
    OutputFile file = must_open(path());
    ASSERT_TRUE(file.write("half of the ne").ok());
    EXPECT_EQ(content(path()), "old");
  }
  EXPECT_EQ(content(path()), "old") << "nothing was published";
  OutputFile file = must_open(path());
  ASSERT_TRUE(file.write("all of ").ok());
  ASSERT_TRUE(file.write("the new").ok());
  ASSERT_TRUE(file.publish().ok());
  EXPECT_EQ(content(path()), "all of the new");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0640));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFileTest, NothingAppearsBeforeItIsPublished) {
  OutputFile file = must_open(path());
  ASSERT_TRUE(file.write("text").ok());
  EXPECT_FALSE(fs::exists(path()));
  ASSERT_TRUE(file.publish().ok());
  EXPECT_EQ(content(path()), "text");
}

TEST_F(OutputFileTest, AWrongPathFailsAtOnce) {
  const auto code = [](const std::string& path) {
    const auto file = OutputFile::open(path);
    EXPECT_FALSE(file.ok()) << path;
    EXPECT_FALSE(file.ok() ? false : file.error().remedy.empty());
    return file.ok() ? ErrorCode::failed : file.error().code;
  };
  EXPECT_EQ(code(""), ErrorCode::usage);
  EXPECT_EQ(code(path("no/folder")), ErrorCode::not_found);
  EXPECT_EQ(code(path("new/")), ErrorCode::usage);
  EXPECT_EQ(code(folder_), ErrorCode::exists);
  std::ofstream(path("file")) << "x";
  EXPECT_EQ(code(path("file/below")), ErrorCode::io);
  EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFileTest, ALinkIsFollowedAndKept) {
  fs::create_symlink("target", path("link"));
  for (const char* text : {"first", "second"}) {
    OutputFile file = must_open(path("link"));
    ASSERT_TRUE(file.write(text).ok());
    ASSERT_TRUE(file.publish().ok());
    EXPECT_TRUE(fs::is_symlink(path("link")));
    EXPECT_EQ(content(path("target")), text);
  }
}

TEST_F(OutputFileTest, WhatIsNoFileIsWrittenToDirectly) {
  OutputFile nowhere = must_open("/dev/null");
  EXPECT_TRUE(nowhere.write("text").ok());
  EXPECT_TRUE(nowhere.publish().ok());
  struct stat status {};
  ASSERT_EQ(stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  OutputFile full = must_open("/dev/full");
  const auto written = full.write("text");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, ErrorCode::out_of_space);
  EXPECT_EQ(written.error().where, "/dev/full");
}

}  // namespace
}  // namespace perdure
