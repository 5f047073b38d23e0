#include "engine/pmse/pmse.h"

#include <map>

#include "core/rng.h"
#include "index/registry.h"
#include "pool/test_support.h"

namespace perdure::engine::pmse {
namespace {

class PmseTest : public testing::TestWithParam<const char*> {};

TEST_P(PmseTest, AgreesWithAMapThroughSplitsAndRemovals) {
  const TestFolder folder;
  PoolOptions options;
  options.path = folder.file();
  options.heap = HeapKind::pmdk;
  options.bytes = 64U << 20;
  options.overwrite = true;
  auto pool = Pool::create(options).value();
  const IndexInfo& info = *IndexRegistry::find(GetParam()).value();
  IndexPlace place;
  place.pool = pool.get();
  auto index = create_index<ByteKeys>(info, place).value();
  std::map<std::string, std::string> model;
  Rng rng(3);
  for (int i = 0; i < 4000; ++i) {
    const std::string key = std::to_string(rng.below(500));
    const std::string value(rng.below(300), static_cast<char>('a' + rng.below(26)));
    if (rng.below(4) == 0) {
      EXPECT_EQ(index->remove(key), model.erase(key) == 1 ? Outcome::ok : Outcome::not_found);
    } else {
      EXPECT_EQ(index->upsert(key, value), Outcome::ok);
      model[key] = value;
    }
  }
  EXPECT_TRUE(index->check_invariants().ok());
  const auto expect_model = [&](BytesIndex& of) {
    BytesScan scan;
    EXPECT_EQ(of.scan("", model.size() + 1, scan), model.size());
    std::size_t at = 0;
    for (const auto& [key, value] : model) {
      ASSERT_EQ(scan[at].key, key);
      ASSERT_EQ(scan[at++].value, value);
    }
  };
  expect_model(*index);
  index.reset();
  pool.reset();
  pool = Pool::open(options).value();
  place.pool = pool.get();
  index = recover_index<ByteKeys>(info, place).value();
  expect_model(*index);
  EXPECT_TRUE(index->check_invariants().ok());
}

INSTANTIATE_TEST_SUITE_P(Modes, PmseTest, testing::Values("pmse:published", "pmse:mended"),
                         [](const auto& test) { return std::string(test.param).substr(5); });

}  // namespace
}  // namespace perdure::engine::pmse
