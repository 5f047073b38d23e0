#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pibench/tree_api.h"

namespace {

using testing::HasSubstr;

class ExportedTree : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"INDEX", "HEAP", "DURABILITY", "OPTIONS", "POOL_BYTES"})
      unsetenv(("PERDURE_" + std::string(name)).c_str());
    void* const library = dlopen(PERDURE_PIBENCH_LIBRARY, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    create_ = reinterpret_cast<tree_api* (*)(const tree_options_t&)>(dlsym(library, "create_tree"));
    ASSERT_NE(create_, nullptr);
  }

  [[nodiscard]] std::unique_ptr<tree_api> create(const tree_options_t& options = {}) {
    return std::unique_ptr<tree_api>(create_(options));
  }
  /// The one line that a refusal prints.
  [[nodiscard]] std::string refusal(const tree_options_t& options = {}) {
    testing::internal::CaptureStderr();
    const auto tree = create(options);
    std::string line = testing::internal::GetCapturedStderr();
    EXPECT_EQ(tree, nullptr);
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
    return line;
  }

  tree_api* (*create_)(const tree_options_t&) = nullptr;
};

TEST_F(ExportedTree, SaysInOneLineWhatIsWrongWithTheEnvironment) {
  EXPECT_THAT(refusal(), HasSubstr("PERDURE_INDEX"));
  setenv("PERDURE_INDEX", "stdmpa", 1);
  EXPECT_THAT(refusal(), HasSubstr("did you mean 'stdmap'"));
  setenv("PERDURE_INDEX", "stdmap", 1);
  setenv("PERDURE_HEAP", "slap", 1);
  EXPECT_THAT(refusal(), HasSubstr("PERDURE_HEAP"));
  setenv("PERDURE_HEAP", "slab", 1);
  setenv("PERDURE_DURABILITY", "maybe", 1);
  EXPECT_THAT(refusal(), HasSubstr("adr | eadr | none"));
  setenv("PERDURE_DURABILITY", "eadr", 1);
  setenv("PERDURE_OPTIONS", "leaves=3", 1);
  EXPECT_THAT(refusal(), HasSubstr("PERDURE_OPTIONS"));
  setenv("PERDURE_OPTIONS", "", 1);
  setenv("PERDURE_POOL_BYTES", "much", 1);
  EXPECT_THAT(refusal(), HasSubstr("PERDURE_POOL_BYTES"));
  setenv("PERDURE_POOL_BYTES", "64MiB", 1);
  EXPECT_NE(create(), nullptr);
  setenv("PERDURE_INDEX", "lmdb", 1);
  EXPECT_THAT(refusal(), HasSubstr("--pool_path"));
}

TEST_F(ExportedTree, OrdersEightByteKeysNumericallyWhateverTheValues) {
  setenv("PERDURE_INDEX", "stdmap", 1);
  for (const std::size_t value_size : {std::size_t{8}, std::size_t{100}}) {
    tree_options_t options;
    options.value_size = value_size;
    const auto tree = create(options);
    ASSERT_NE(tree, nullptr);
    const std::vector<std::uint64_t> keys = {1, 0x100, 1ULL << 63, ~0ULL};
    const std::string value(value_size, 'v');
    for (const std::uint64_t key : keys)
      EXPECT_TRUE(tree->insert(reinterpret_cast<const char*>(&key), 8, value.data(), value_size));
    const std::uint64_t start = 2;
    char* records = nullptr;
    ASSERT_EQ(tree->scan(reinterpret_cast<const char*>(&start), 8, 10, records), 3);
    for (std::size_t i = 0; i < 3; ++i) {
      std::uint64_t key = 0;
      std::memcpy(&key, records + i * (8 + value_size), sizeof key);
      EXPECT_EQ(key, keys[i + 1]);
      EXPECT_EQ(std::string(records + i * (8 + value_size) + 8, value_size), value);
    }
    EXPECT_EQ(tree->scan(reinterpret_cast<const char*>(&start), 8, 0, records), 0);
  }
}

// What a host's buffers have no room for must not come back later.
TEST_F(ExportedTree, RefusesSizesThatWereNotAnnounced) {
  setenv("PERDURE_INDEX", "stdmap", 1);
  tree_options_t options;
  options.key_size = 16;
  options.value_size = 32;
  const auto tree = create(options);
  ASSERT_NE(tree, nullptr);
  const std::string key(16, 'k');
  const std::string value(33, 'v');
  testing::internal::CaptureStderr();
  EXPECT_FALSE(tree->insert(key.data(), 16, value.data(), 33));
  EXPECT_FALSE(tree->insert(key.data(), 16, value.data(), 33));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("sizes that PiBench announced"));
  EXPECT_TRUE(tree->insert(key.data(), 16, value.data(), 32));
}

TEST_F(ExportedTree, DrivesAnOnDiskIndexInItsPoolPath) {
  setenv("PERDURE_INDEX", "lmdb", 1);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("perdure_export_" + std::to_string(getpid()));
  tree_options_t options;
  options.pool_path = path;
  const std::uint64_t key = 5;
  const auto* const raw = reinterpret_cast<const char*>(&key);
  std::uint64_t found = 0;
  {
    const auto tree = create(options);
    ASSERT_NE(tree, nullptr);
    EXPECT_TRUE(tree->insert(raw, 8, raw, 8));
    EXPECT_TRUE(tree->find(raw, 8, reinterpret_cast<char*>(&found)));
    EXPECT_EQ(found, 5U);
  }
  EXPECT_THAT(refusal(options), HasSubstr("exists already"));
  std::filesystem::remove_all(path);
}

}  // namespace
