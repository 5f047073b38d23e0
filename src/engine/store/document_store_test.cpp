#include "engine/store/document_store.h"

#include <atomic>
#include <map>
#include <thread>

#include "core/rng.h"
#include "engine/store/store_head.h"
#include "engine/store/test_image.h"

namespace perdure::engine {
namespace {

using testing::Test;
using Keys = std::vector<std::string>;

constexpr std::size_t mib = 1U << 20;

TEST(DocumentStore, KeepsDocumentsUnderKeys) {
  StoreInImage store(2 * mib);
  EXPECT_EQ(store->put("a", "xy.one", Put::insert), Status::ok);
  EXPECT_EQ(store->put("a", "x.two", Put::insert), Status::exists);
  EXPECT_EQ(store->put("b", "x.two", Put::update), Status::not_found);
  EXPECT_EQ(store->put("b", "x.two", Put::upsert), Status::ok);
  EXPECT_EQ(store.at("a"), "xy.one");
  EXPECT_EQ(store.with('x'), (Keys{"a", "b"}));
  EXPECT_EQ(store->put("a", "y.three", Put::update), Status::ok);
  EXPECT_EQ(store.with('x'), Keys{"b"});
  EXPECT_EQ(store.with('y'), Keys{"a"});
  EXPECT_EQ(store->remove("b"), Status::ok);
  EXPECT_EQ(store->remove("b"), Status::not_found);
  EXPECT_EQ(store.with('x'), Keys{});
  EXPECT_EQ(store->size(), 1U);
  store.expect_sound();
}

TEST(DocumentStore, KeepsEmptyAndLongestDocuments) {
  StoreInImage store(64 * mib);
  std::string longest(max_document_bytes, '.');
  for (std::size_t i = 0; i < longest.size(); i += 4096) longest[i] = static_cast<char>(i >> 12);
  longest[0] = '.';
  EXPECT_EQ(store->put("longest", longest, Put::insert), Status::ok);
  EXPECT_EQ(store->put("empty", "", Put::insert), Status::ok);
  EXPECT_EQ(store->put("longer", longest + ".", Put::insert), Status::too_long);
  EXPECT_EQ(store->put(std::string(max_key_bytes + 1, 'k'), "", Put::insert), Status::too_long);
  const auto after = store.cut();
  for (StoreInImage* each : {&store, after.get()}) {
    EXPECT_EQ(each->at("longest"), longest);
    EXPECT_EQ(each->at("empty"), "");
    each->expect_sound();
  }
}

TEST(DocumentStore, ReusesTheRoomOfLongDocuments) {
  StoreInImage store(8 * mib);
  const std::string document(mib, '.');
  for (int i = 0; i < 50; ++i) ASSERT_EQ(store->put("k", document, Put::upsert), Status::ok) << i;
  ASSERT_EQ(store->remove("k"), Status::ok);
  store.expect_sound();
}

TEST(DocumentStore, RefusesASecondDocumentWithAUniqueEntry) {
  StoreInImage store(2 * mib);
  EXPECT_EQ(store->put("a", "U.", Put::insert), Status::ok);
  EXPECT_EQ(store->put("b", "U.", Put::insert), Status::duplicate);
  EXPECT_EQ(store.at("b"), "(not found)");
  EXPECT_EQ(store->put("b", "V.", Put::insert), Status::ok);
  EXPECT_EQ(store->put("b", "UV.", Put::update), Status::duplicate);
  EXPECT_EQ(store.at("b"), "V.");
  EXPECT_EQ(store->put("a", "W.", Put::update), Status::ok);
  EXPECT_EQ(store->put("b", "UV.", Put::update), Status::ok);
  store.expect_sound();
}

class Append final : public DocumentStore::Change {
 public:
  bool operator()(const std::string* document, std::string& out, bool& remove) override {
    if (document == nullptr) return false;
    remove = document->size() > 6;
    out = *document + "+";
    return true;
  }
};

TEST(DocumentStore, ChangesADocumentUnderItsLock) {
  StoreInImage store(2 * mib);
  Append append;
  EXPECT_EQ(store->modify("k", append), Status::unchanged);
  ASSERT_EQ(store->put("k", "x.", Put::insert), Status::ok);
  constexpr int threads = 4;
  std::vector<std::thread> team;
  team.reserve(threads);
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&] {
      Append mine;
      EXPECT_EQ(store->modify("k", mine), Status::ok);
    });
  for (std::thread& one : team) one.join();
  EXPECT_EQ(store.at("k"), "x.++++");
  EXPECT_EQ(store->modify("k", append), Status::ok);
  EXPECT_EQ(store->modify("k", append), Status::ok);
  EXPECT_EQ(store.at("k"), "(not found)");
  store.expect_sound();
}

// Random writes of several threads, each on keys of its own, in a pool that they fill many times.
TEST(DocumentStore, KeepsWhatItWasGivenWhileItCleans) {
  constexpr int threads = 4;
  constexpr std::uint64_t writes = 6000;
  StoreInImage store(24 * mib);
  std::vector<std::map<std::string, std::string>> models(threads);
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      Rng rng(static_cast<std::uint64_t>(t) + 1);
      auto& model = models[static_cast<std::size_t>(t)];
      for (std::uint64_t i = 0; i < writes; ++i) {
        const std::string key = std::to_string(t) + ":" + std::to_string(rng() % 400);
        if (rng() % 5 == 0) {
          EXPECT_EQ(store->remove(key), model.erase(key) == 1 ? Status::ok : Status::not_found);
          continue;
        }
        std::string document(1, static_cast<char>('a' + rng() % 26));
        document += "." + std::string(rng() % 12000, static_cast<char>('a' + rng() % 26));
        ASSERT_EQ(store->put(key, document, Put::upsert), Status::ok);
        model[key] = document;
      }
    });
  for (std::thread& one : team) one.join();
  const StoreUsage usage = store->usage();
  EXPECT_GT(usage.moved_bytes, 0U);
  const auto after = store.cut();
  std::uint64_t documents = 0;
  for (const auto& model : models) {
    documents += model.size();
    for (const auto& [key, document] : model) {
      ASSERT_EQ(store.at(key), document);
      ASSERT_EQ(after->at(key), document);
    }
  }
  EXPECT_EQ(store->size(), documents);
  EXPECT_EQ((*after)->size(), documents);
  store.expect_sound();
  after->expect_sound();
}

TEST(DocumentStore, WritesTenTimesItsDocumentsInAPoolOfOneAndAHalfTimes) {
  constexpr std::uint64_t keys = 6000;
  const std::string document(4096, '.');
  StoreInImage store(keys * document.size() * 3 / 2 / mib * mib);
  Rng rng(7);
  for (std::uint64_t i = 0; i < 10 * keys; ++i)
    ASSERT_EQ(store->put(std::to_string(i < keys ? i : rng() % keys), document, Put::upsert),
              Status::ok);
  const StoreUsage usage = store->usage();
  EXPECT_LE(static_cast<double>(usage.segment_bytes), 1.3 * static_cast<double>(usage.live_bytes));
  store.expect_sound();
}

TEST(DocumentStore, GivesRoomBackInAFullPool) {
  StoreInImage store(4 * mib);
  const std::string document = "x." + std::string(3000, 'd');
  std::uint64_t documents = 0;
  while (store->put(std::to_string(documents), document, Put::insert) == Status::ok) ++documents;
  EXPECT_GT(documents, 500U);
  store.expect_sound();
  for (std::uint64_t i = 0; i < documents; i += 2)
    ASSERT_EQ(store->remove(std::to_string(i)), Status::ok);
  std::uint64_t again = 0;
  for (std::uint64_t i = 0; i < documents; i += 2)
    again += store->put(std::to_string(i), document, Put::insert) == Status::ok ? 1U : 0U;
  EXPECT_GE(again, documents * 45 / 100);
  store.expect_sound();
}

TEST(DocumentStore, SaysWhichRecordIsDamagedAndServesTheRest) {
  StoreInImage store(2 * mib);
  const std::string document = "x." + std::string(200, 'd');
  ASSERT_EQ(store->put("good", document, Put::insert), Status::ok);
  ASSERT_EQ(store->put("bad", document + "!", Put::insert), Status::ok);
  const std::span<std::byte> memory(store.pool().base(), store.pool().bytes());
  const std::string mark = "d!";
  const auto found = std::search(memory.begin(), memory.end(), mark.begin(), mark.end(),
                                 [](std::byte a, char b) { return static_cast<char>(a) == b; });
  ASSERT_NE(found, memory.end());
  *found = std::byte{'e'};
  EXPECT_EQ(store.at("bad"), "(corrupt)");
  EXPECT_EQ(store.at("good"), document);
  const auto findings = store->check(10);
  ASSERT_FALSE(findings.empty());
  EXPECT_NE(findings.front().what.find("checksum"), std::string::npos);
}

std::uint64_t count_in(std::span<const std::byte> memory, std::string_view text) {
  const std::string_view all(reinterpret_cast<const char*>(memory.data()), memory.size());
  std::uint64_t count = 0;
  for (auto at = all.find(text); at != all.npos; at = all.find(text, at + 1)) ++count;
  return count;
}

TEST(DocumentStore, KeepsRecordsAndIndexInPartsOfTheirOwn) {
  Image image(8 * mib);
  const auto pool = std::move(Pool::create_in(image.memory(), 2)).value();
  Letters rule;
  const auto store = std::move(DocumentStore::create(*pool, {}, rule)).value();
  constexpr std::uint64_t documents = 300;
  for (std::uint64_t i = 0; i < documents; ++i)
    ASSERT_EQ(store->put("key-of-a-document-" + std::to_string(i), "x.what-it-says", Put::insert),
              Status::ok);
  wait_for_background(*store);
  // A record holds key and document, the index the key once more.
  EXPECT_GE(count_in(pool->part(0), "what-it-says"), documents);
  EXPECT_EQ(count_in(pool->part(1), "what-it-says"), 0U);
  EXPECT_GE(count_in(pool->part(1), "key-of-a-document"), documents);
  EXPECT_EQ(count_in(pool->part(0), "key-of-a-document"), documents);
}

}  // namespace
}  // namespace perdure::engine
