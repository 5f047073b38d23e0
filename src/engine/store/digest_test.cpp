#include "engine/store/digest.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/store/test_image.h"

namespace perdure::engine {
namespace {

using testing::Test;

constexpr std::size_t image_bytes = 2U << 20;

Digest digest(StoreInImage& store) { return std::move(digest_of(*store.operator->())).value(); }

TEST(Digest, IsThatOfTheContentsAndNotOfHowTheyCame) {
  StoreInImage one(image_bytes);
  StoreInImage other(image_bytes);
  for (const char* key : {"a", "b", "c"})
    ASSERT_EQ(one->put(key, std::string("x.") + key, Put::insert), Status::ok);
  ASSERT_EQ(other->put("z", "y.", Put::insert), Status::ok);
  for (const char* key : {"c", "b", "a"}) ASSERT_EQ(other->put(key, "x.", Put::insert), Status::ok);
  EXPECT_NE(digest(one), digest(other));
  ASSERT_EQ(other->remove("z"), Status::ok);
  for (const char* key : {"b", "c", "a"})
    ASSERT_EQ(other->put(key, std::string("x.") + key, Put::update), Status::ok);
  EXPECT_EQ(digest(one), digest(other));
  EXPECT_EQ(digest(one).text(), digest(other).text());
  EXPECT_EQ(digest(one).documents, 3U);
  EXPECT_EQ(digest(one).entries, 3U);
}

TEST(Digest, ChangesWithAnyKeyValueOrEntry) {
  std::vector<std::string> seen;
  const auto note = [&](StoreInImage& store) {
    const std::string text = digest(store).text();
    EXPECT_EQ(std::count(seen.begin(), seen.end(), text), 0);
    seen.push_back(text);
  };
  StoreInImage store(image_bytes);
  note(store);
  for (const char* document : {".", ".a", ".b", "x.b", "xy.b", "xU.b", ".ab", ".aa"}) {
    ASSERT_EQ(store->put("key", document, Put::upsert), Status::ok);
    note(store);
  }
  ASSERT_EQ(store->put("key2", ".aa", Put::upsert), Status::ok);
  note(store);
  ASSERT_EQ(store->remove("key"), Status::ok);
  note(store);
  // A byte that moves from the key to the document.
  ASSERT_EQ(store->remove("key2"), Status::ok);
  ASSERT_EQ(store->put("key", "2.aa", Put::upsert), Status::ok);
  note(store);
}

TEST(Digest, RefusesADamagedRecord) {
  StoreInImage store(image_bytes);
  ASSERT_EQ(store->put("key", ".unmistakable", Put::insert), Status::ok);
  const std::span<std::byte> memory(store.pool().base(), store.pool().bytes());
  const std::string mark = "unmistakable";
  const auto found = std::search(memory.begin(), memory.end(), mark.begin(), mark.end(),
                                 [](std::byte a, char b) { return static_cast<char>(a) == b; });
  ASSERT_NE(found, memory.end());
  *found = std::byte{'e'};
  const auto refused = digest_of(*store.operator->());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace perdure::engine
