#include "engine/document/engine.h"

#include <thread>

#include "engine/document/filter.h"
#include "engine/document/test_engine.h"

namespace perdure::engine {
namespace {

TEST(Engine, KeepsDocumentsOverACut) {
  EngineInImage engine;
  engine.insert(R"({"_id": 1, "name": "Ada"})");
  engine.insert(R"({"name": "Bob", "_id": "b"})");
  const auto after = engine.cut();
  EXPECT_EQ(after->one(R"({"_id": 1})"), json_of(document(R"({"_id": 1, "name": "Ada"})")));
  EXPECT_EQ(after->one(R"({"name": "Bob"})"), json_of(document(R"({"_id": "b", "name": "Bob"})")));
  EXPECT_EQ(after->ids("{}"), "1 \"b\"");
  after->expect_sound();
}

TEST(Engine, RefusesASecondDocumentWithAnId) {
  EngineInImage engine;
  engine.insert(R"({"_id": 1})");
  const Answer<Done> again = engine.people().insert(document(R"({"_id": 1.0})"));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.failure().code, Code::duplicate_key);
  EXPECT_EQ(again.failure().message,
            "E11000 duplicate key error collection: test.people index: _id_ dup key: { _id: 1.0 }");
}

TEST(Engine, RefusesIdsThatCannotBeKeys) {
  EngineInImage engine;
  const auto refusal = [&](const std::string& bytes) {
    const Answer<Done> done = engine.people().insert(bytes);
    return done.ok() ? Code::internal_error : done.failure().code;
  };
  EXPECT_EQ(refusal(document(R"({"_id": [1]})")), Code::invalid_id_field);
  EXPECT_EQ(refusal(document(R"({"_id": {"$undefined": true}})")), Code::invalid_id_field);
  EXPECT_EQ(refusal(document(R"({"_id": {"$numberDecimal": "1"}})")), Code::unsupported_format);
  EXPECT_EQ(refusal(document(R"({"_id": ")" + std::string(2100, 'x') + R"("})")),
            Code::key_too_long);
  EXPECT_EQ(refusal("garbage"), Code::invalid_bson);
  Builder large;
  append_text(large, "a", std::string(max_document_bytes, 'x'));
  EXPECT_EQ(refusal(std::string(large.bytes())), Code::bson_object_too_large);
  EXPECT_EQ(engine.ids("{}"), "");
}

TEST(Engine, RefusesNamesThatAreNone) {
  EngineInImage engine;
  for (const char* name : {"", "test", "test.", ".people", "te st.people", "test.a$b"})
    EXPECT_FALSE(engine->collection(name).insert(document("{}")).ok()) << name;
}

TEST(Engine, SortsSkipsAndLimits) {
  EngineInImage engine;
  for (int i = 0; i < 20; ++i)
    engine.insert(
        (R"({"_id": )" + std::to_string(i) + R"(, "a": )" + std::to_string(i * 7 % 20) + "}")
            .c_str());
  EXPECT_EQ(engine.ids("{}", R"({"_id": -1})", 0, 3), "19 18 17");
  EXPECT_EQ(engine.ids("{}", R"({"_id": 1})", 5, 3), "5 6 7");
  EXPECT_EQ(engine.ids(R"({"_id": {"$gte": 5, "$lt": 8}})"), "5 6 7");
  EXPECT_EQ(engine.ids(R"({"_id": {"$in": [9, 3, 3, 100]}})"), "3 9");
  EXPECT_EQ(engine.ids("{}", R"({"a": 1})", 0, 3), "0 3 6");
  EXPECT_EQ(*engine.people().count(document(R"({"a": {"$gte": 10}})")), 10U);
  EXPECT_EQ(*engine.people().count({}, 5, 10), 10U);
  EXPECT_EQ(*engine.people().count({}, 15, 10), 5U);
}

TEST(Engine, UpdatesAndCountsWhatChanged) {
  EngineInImage engine;
  engine.insert(R"({"_id": 1, "a": 1})");
  engine.insert(R"({"_id": 2, "a": 1})");
  const auto update = [&](const char* filter, const char* change, UpdateOptions options = {}) {
    Answer<UpdateResult> result =
        engine.people().update(document(filter), document(change), options);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.failure().message);
    return result.ok() ? *result : UpdateResult{};
  };
  UpdateResult result = update(R"({"a": 1})", R"({"$set": {"b": 2}})", {.many = true});
  EXPECT_EQ(result.matched, 2U);
  EXPECT_EQ(result.modified, 2U);
  result = update(R"({"_id": 1})", R"({"$set": {"b": 2}})");
  EXPECT_EQ(result.matched, 1U);
  EXPECT_EQ(result.modified, 0U);
  result = update(R"({"_id": 2})", R"({"c": 5})");
  EXPECT_EQ(engine.one(R"({"_id": 2})"), json_of(document(R"({"_id": 2, "c": 5})")));
  result = update(R"({"_id": 3})", R"({"$inc": {"n": 1}})", {.upsert = true});
  EXPECT_EQ(result.matched, 0U);
  EXPECT_EQ(json_of(result.upserted.value_or("")), json_of(document(R"({"_id": 3})")));
  result = update(R"({"_id": 3})", R"({"$inc": {"n": 1}})", {.upsert = true});
  EXPECT_EQ(engine.one(R"({"_id": 3})"), json_of(document(R"({"_id": 3, "n": 2})")));
  EXPECT_EQ(*engine.people().remove(document(R"({"_id": {"$lt": 3}})"), true), 2U);
  EXPECT_EQ(engine.ids("{}"), "3");
}

TEST(Engine, AnswersWithAnIndexAsWithout) {
  EngineInImage plain;
  EngineInImage indexed;
  ASSERT_TRUE(*indexed.people().create_index({.field = "v"}));
  Rng random(11);
  for (int i = 0; i < 400; ++i) {
    Builder one;
    append_int32(one, "_id", i);
    if (i % 9 != 0) append_random_value(one, "v", random);
    for (EngineInImage* each : {&plain, &indexed})
      ASSERT_TRUE(each->people().insert(one.bytes()).ok());
  }
  const auto found = [](EngineInImage& engine, const std::string& filter) {
    Answer<Cursor> cursor = engine.people().find({.filter = filter});
    Answer<std::vector<std::string>> batch = cursor->next_batch(1000, 100U << 20);
    std::vector<std::string> documents = batch.ok() ? *batch : std::vector<std::string>{};
    std::ranges::sort(documents);
    return documents;
  };
  std::size_t total = 0;
  for (int i = 0; i < 600; ++i) {
    Builder filter;
    {
      DocumentBuilder operators(filter, "v");
      constexpr std::array names = {"$eq", "$gt", "$gte", "$lt", "$lte"};
      append_random_value(operators, names[random.below(names.size())], random);
      if (random.below(2) == 0)
        append_random_value(operators, names[random.below(names.size())], random);
    }
    if (!Filter::parse(filter.bytes()).ok()) continue;
    const std::string bytes(filter.bytes());
    const auto expected = found(plain, bytes);
    ASSERT_EQ(found(indexed, bytes), expected) << json_of(bytes);
    total += expected.size();
  }
  EXPECT_GT(total, 1000U);
  indexed.expect_sound();
}

TEST(Engine, IndexFollowsUpdatesAndRemovals) {
  EngineInImage engine;
  ASSERT_TRUE(*engine.people().create_index({.field = "a.b"}));
  engine.insert(R"({"_id": 1, "a": {"b": 5}})");
  engine.insert(R"({"_id": 2, "a": [{"b": 5}, {"b": 6}]})");
  engine.insert(R"({"_id": 3})");
  EXPECT_EQ(engine.ids(R"({"a.b": 5})"), "1 2");
  EXPECT_EQ(engine.ids(R"({"a.b": {"$gte": 5}})"), "1 2");
  EXPECT_EQ(engine.ids(R"({"a.b": null})"), "3");
  ASSERT_TRUE(engine.people()
                  .update(document(R"({"a.b": {"$gt": 4}})"),
                          document(R"({"$set": {"a": {"b": 9}}})"), {.many = true})
                  .ok());
  EXPECT_EQ(engine.ids(R"({"a.b": 9})"), "1 2");
  EXPECT_EQ(engine.ids(R"({"a.b": 5})"), "");
  ASSERT_TRUE(engine.people().remove(document(R"({"a.b": 9})"), true).ok());
  EXPECT_EQ(engine.ids("{}"), "3");
  engine.expect_sound();
}

TEST(Engine, UpdateOfManyMeetsEachDocumentOnce) {
  EngineInImage engine;
  ASSERT_TRUE(*engine.people().create_index({.field = "a"}));
  for (int i = 0; i < 300; ++i)
    engine.insert(
        (R"({"_id": )" + std::to_string(i) + R"(, "a": )" + std::to_string(i) + "}").c_str());
  const auto result = engine.people().update(document(R"({"a": {"$gte": 0}})"),
                                             document(R"({"$inc": {"a": 1000}})"), {.many = true});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->modified, 300U);
  EXPECT_EQ(*engine.people().count(document(R"({"a": {"$gte": 2000}})")), 0U);
}

TEST(Engine, UniqueIndexRefusesEqualValues) {
  EngineInImage engine;
  ASSERT_TRUE(*engine.people().create_index({.field = "mail", .unique = true}));
  engine.insert(R"({"_id": 1, "mail": "a"})");
  const Answer<Done> second = engine.people().insert(document(R"({"_id": 2, "mail": "a"})"));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.failure().message,
            "E11000 duplicate key error collection: test.people index: mail_1 dup key: "
            "{ mail: \"a\" }");
  engine.insert(R"({"_id": 2, "mail": "b"})");
  const auto update =
      engine.people().update(document(R"({"_id": 2})"), document(R"({"$set": {"mail": "a"}})"));
  ASSERT_FALSE(update.ok());
  EXPECT_EQ(update.failure().code, Code::duplicate_key);
  EXPECT_EQ(engine.ids(R"({"mail": "a"})"), "1");
  engine.expect_sound();
}

TEST(Engine, UniqueIndexIsNotMadeOverEqualValues) {
  EngineInImage engine;
  engine.insert(R"({"_id": 1, "mail": "a"})");
  engine.insert(R"({"_id": 2, "mail": "a"})");
  const Answer<bool> made = engine.people().create_index({.field = "mail", .unique = true});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.failure().code, Code::duplicate_key);
  EXPECT_EQ(engine.entry_count(), 0U);
  EXPECT_TRUE(engine.people().indexes()->empty());
  engine.insert(R"({"_id": 3, "mail": "a"})");
  engine.expect_sound();
}

TEST(Engine, DocumentsThatCannotBeIndexedAreRefused) {
  EngineInImage engine;
  ASSERT_TRUE(*engine.people().create_index({.field = "a"}));
  const std::string too_long = R"({"_id": 1, "a": ")" + std::string(2100, 'x') + R"("})";
  EXPECT_EQ(engine.people().insert(document(too_long)).failure().code, Code::key_too_long);
  EXPECT_EQ(engine.people().insert(document(R"({"a": {"$numberDecimal": "1"}})")).failure().code,
            Code::unsupported_format);
  engine.insert((R"({"_id": 1, "b": ")" + std::string(2100, 'x') + R"("})").c_str());
  EXPECT_EQ(engine.people().create_index({.field = "b"}).failure().code, Code::key_too_long);
  EXPECT_EQ(engine.people()
                .update(document("{}"), document(R"({"$set": {"a": {"$numberDecimal": "1"}}})"))
                .failure()
                .code,
            Code::unsupported_format);
}

TEST(Engine, IndexGivesTheOrder) {
  EngineInImage engine;
  ASSERT_TRUE(*engine.people().create_index({.field = "a"}));
  engine.insert(R"({"_id": 1, "a": 3})");
  engine.insert(R"({"_id": 2, "a": "x"})");
  engine.insert(R"({"_id": 3})");
  engine.insert(R"({"_id": 4, "a": 1})");
  EXPECT_EQ(engine.ids("{}", R"({"a": 1})"), "3 4 1 2");
  EXPECT_EQ(engine.ids("{}", R"({"a": -1})"), "2 1 4 3");
  EXPECT_EQ(engine.ids(R"({"a": {"$gt": 0}})", R"({"a": 1})"), "4 1");
  engine.insert(R"({"_id": 5, "a": [2, 9]})");
  EXPECT_EQ(engine.ids("{}", R"({"a": 1})"), "3 4 5 1 2");
  EXPECT_EQ(engine.ids(R"({"a": {"$gt": 8, "$lt": 3}})"), "5");
}

TEST(Engine, DropsCollectionsWithTheirEntries) {
  EngineInImage engine;
  ASSERT_TRUE(*engine.people().create_index({.field = "a"}));
  engine.insert(R"({"_id": 1, "a": 3})");
  ASSERT_TRUE(engine->collection("other.things").insert(document("{}")).ok());
  EXPECT_EQ(engine->databases(), (std::vector<std::string>{"other", "test"}));
  EXPECT_TRUE(*engine->drop_collection("test.people"));
  EXPECT_FALSE(*engine->drop_collection("test.people"));
  EXPECT_EQ(engine->databases(), std::vector<std::string>{"other"});
  EXPECT_EQ(engine.entry_count(), 0U);
  engine.insert(R"({"_id": 1, "a": 4})");
  EXPECT_EQ(engine.one("{}"), json_of(document(R"({"_id": 1, "a": 4})")));
  ASSERT_TRUE(engine->drop_database("test").ok());
  EXPECT_EQ(engine.cut()->ids("{}"), "");
}

TEST(Engine, CursorsGoOnBesideWrites) {
  EngineInImage engine;
  for (int i = 0; i < 1000; ++i)
    engine.insert((R"({"_id": )" + std::to_string(2 * i) + "}").c_str());
  Answer<Cursor> cursor = engine.people().find();
  std::size_t seen = cursor->next_batch(100, 1U << 20)->size();
  ASSERT_TRUE(engine.people().remove(document(R"({"_id": {"$lt": 100}})"), true).ok());
  engine.insert(R"({"_id": 1999})");
  for (;;) {
    const Answer<std::vector<std::string>> batch = cursor->next_batch(100, 1U << 20);
    ASSERT_TRUE(batch.ok());
    if (batch->empty()) break;
    seen += batch->size();
  }
  EXPECT_EQ(seen, 1001U);
  EXPECT_TRUE(cursor->is_exhausted());
  Answer<Cursor> dropped = engine.people().find();
  ASSERT_EQ(dropped->next_batch(2, 1U << 20)->size(), 2U);
  ASSERT_TRUE(*engine->drop_collection("test.people"));
  Answer<std::vector<std::string>> rest = dropped->next_batch(1000, 1U << 20);
  while (rest.ok() && !rest->empty()) rest = dropped->next_batch(1000, 1U << 20);
  EXPECT_FALSE(rest.ok());
}

TEST(Catalog, FinishesADropThatWasInterrupted) {
  EngineInImage engine;
  ASSERT_TRUE(*engine.people().create_index({.field = "a"}));
  for (int i = 0; i < 50; ++i) engine.insert((R"({"a": )" + std::to_string(i) + "}").c_str());
  CollectionInfo collection;
  {
    const Catalog::View view(engine.parts().catalog);
    collection = *view.find("test.people");
  }
  collection.dropping = true;
  ASSERT_TRUE(engine.parts().catalog.save(collection).ok());
  const auto after = engine.cut();
  EXPECT_EQ((*after)->store().size(), 0U);
  EXPECT_EQ(after->entry_count(), 0U);
  EXPECT_TRUE((*after)->databases().empty());
  after->expect_sound();
}

TEST(Catalog, FillsAnIndexThatWasInterrupted) {
  EngineInImage engine;
  for (int i = 0; i < 50; ++i)
    engine.insert(
        (R"({"_id": )" + std::to_string(i) + R"(, "a": )" + std::to_string(i % 5) + "}").c_str());
  CollectionInfo collection;
  {
    const Catalog::View view(engine.parts().catalog);
    collection = *view.find("test.people");
  }
  collection.indexes.push_back({.number = 1, .name = "a_1", .path = *FieldPath::parse("a")});
  ASSERT_TRUE(engine.parts().catalog.save(collection).ok());
  engine.insert(R"({"_id": 50, "a": 4})");
  EXPECT_EQ(engine.entry_count(), 1U);
  EXPECT_EQ(engine.ids(R"({"a": 4})"), "4 9 14 19 24 29 34 39 44 49 50");  // not by the index yet
  const auto after = engine.cut();
  EXPECT_EQ(after->entry_count(), 51U);
  EXPECT_EQ(after->people().indexes()->size(), 1U);
  EXPECT_EQ(after->ids(R"({"a": 4})"), "4 9 14 19 24 29 34 39 44 49 50");
  after->expect_sound();
}

TEST(Catalog, RemovesAnIndexWhoseDropWasInterrupted) {
  EngineInImage engine;
  ASSERT_TRUE(*engine.people().create_index({.field = "a"}));
  engine.insert(R"({"_id": 1, "a": 3})");
  CollectionInfo collection;
  {
    const Catalog::View view(engine.parts().catalog);
    collection = *view.find("test.people");
  }
  collection.indexes[0].state = IndexInfo::State::dropping;
  ASSERT_TRUE(engine.parts().catalog.save(collection).ok());
  const auto after = engine.cut();
  EXPECT_EQ(after->entry_count(), 0U);
  EXPECT_TRUE(after->people().indexes()->empty());
  EXPECT_EQ(after->ids(R"({"a": 3})"), "1");
  EXPECT_TRUE(*after->people().create_index({.field = "a"}));
  EXPECT_EQ(after->entry_count(), 1U);
}

TEST(Catalog, IndexIsWholeThoughWritersRunWhileItIsFilled) {
  EngineInImage engine(32U << 20);
  engine.insert(R"({"_id": -1, "a": 0})");
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int w = 0; w < 2; ++w)
    writers.emplace_back([&engine, &stop, w] {
      Rng random(static_cast<std::uint64_t>(w));
      for (int i = 0; i < 3000 && !stop; ++i) {
        const std::string id = std::to_string(random.below(300));
        const std::string filter = R"({"_id": )" + id + "}";
        const std::string change = R"({"$inc": {"a": 1}})";
        if (random.below(4) == 0)
          (void)engine.people().remove(document(filter));
        else
          (void)engine.people().update(document(filter), document(change), {.upsert = true});
      }
    });
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(*engine.people().create_index({.field = "a"}));
    if (i == 9) break;
    EXPECT_TRUE(engine.people().drop_index("a_1").ok());
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(engine.entry_count(), *engine.people().count());
  engine.expect_sound();
  engine.cut()->expect_sound();
}

TEST(Catalog, KnowsEqualIndexesAndConflictingOnes) {
  EngineInImage engine;
  EXPECT_TRUE(*engine.people().create_index({.field = "a"}));
  EXPECT_FALSE(*engine.people().create_index({.field = "a"}));
  EXPECT_EQ(engine.people().create_index({.field = "a", .name = "x"}).failure().code,
            Code::index_options_conflict);
  EXPECT_EQ(engine.people().create_index({.field = "b", .name = "a_1"}).failure().code,
            Code::index_key_specs_conflict);
  EXPECT_EQ(engine.people().create_index({.field = "a..b"}).failure().code,
            Code::cannot_create_index);
  EXPECT_EQ(engine.people().drop_index("b_1").failure().code, Code::index_not_found);
}

class DamagedEngine : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 1; i <= 5; ++i)
      engine_.insert((R"({"_id": )" + std::to_string(i) + R"(, "n": )" + std::to_string(i) +
                      R"(, "text": "needle)" + std::to_string(i) + R"("})")
                         .c_str());
    ASSERT_TRUE(engine_.people().create_index({.field = "n"}).ok());
    engine_.damage("needle3");
  }
  /// The _ids of a first batch, then what the next one says.
  [[nodiscard]] std::string two_batches(const FindOptions& options) {
    Answer<Cursor> cursor = engine_.people().find(options);
    const Answer<std::vector<std::string>> first = cursor->next_batch(10, 1U << 20);
    if (!first) return name_of(first.failure().code);
    std::string said = std::to_string(first->size());
    if (cursor->is_exhausted()) return said;
    const Answer<std::vector<std::string>> second = cursor->next_batch(10, 1U << 20);
    return said + ' ' + (second.ok() ? "ok" : name_of(second.failure().code));
  }

  EngineInImage engine_;
};

TEST_F(DamagedEngine, ServesTheRestAndThenFails) {
  EXPECT_EQ(two_batches({}), "4 OperationFailed");
  EXPECT_EQ(two_batches({.sort = document(R"({"text": -1})")}), "4 OperationFailed");
  EXPECT_EQ(two_batches({.filter = document(R"({"n": {"$gte": 2}})")}), "3 OperationFailed");
  EXPECT_EQ(two_batches({.filter = document(R"({"n": {"$gt": 3}})")}), "2");
  EXPECT_EQ(two_batches({.limit = 2}), "2");
  EXPECT_EQ(two_batches({.limit = 3}), "OperationFailed") << "nobody would ask for a second batch";
  EXPECT_EQ(two_batches({.skips_damaged = true}), "4");
}

TEST_F(DamagedEngine, NeverSaysThatADamagedDocumentIsNotThere) {
  EXPECT_EQ(engine_.ids(R"({"_id": 3})"), "OperationFailed");
  EXPECT_EQ(engine_.ids(R"({"n": 3})"), "OperationFailed");
  EXPECT_FALSE(engine_.people().count(document(R"({"n": {"$gt": 0}})")).ok());
  EXPECT_EQ(engine_.people().count().value(), 5U);
}

TEST_F(DamagedEngine, ChangesTheRestAndThenFails) {
  const std::string set = document(R"({"$set": {"x": 1}})");
  EXPECT_TRUE(engine_.people().update(document(R"({"_id": 1})"), set).ok());
  EXPECT_FALSE(engine_.people().update(document(R"({"text": "none"})"), set, {.upsert = true}).ok())
      << "the damaged document may be the one that is meant";
  EXPECT_FALSE(engine_.people().update({}, set, {.many = true}).ok());
  EXPECT_EQ(engine_.people().count(document(R"({"x": 1, "n": {"$gt": 3}})")).value(), 2U);
  EXPECT_FALSE(engine_.people().remove({}, true).ok());
  EXPECT_EQ(engine_.people().count().value(), 1U);
}

TEST_F(DamagedEngine, MakesNoIndexThatWouldLackADocument) {
  EXPECT_FALSE(engine_.people().create_index({.field = "text"}).ok());
  EXPECT_EQ(engine_.people().indexes()->size(), 1U);
}

TEST(Engine, FullPoolRefusesWritesAndStillDrops) {
  EngineInImage engine(4U << 20);
  const std::string filler(20000, 'x');
  Answer<Done> done = Done{};
  int count = 0;
  while (done.ok() && count < 1000) {
    Builder one;
    append_int32(one, "_id", count++);
    append_text(one, "f", filler);
    done = engine.people().insert(one.bytes());
  }
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.failure().code, Code::out_of_disk_space);
  const Answer<bool> dropped = engine->drop_collection("test.people");
  ASSERT_TRUE(dropped.ok()) << dropped.failure().message;
  engine.insert(R"({"_id": 1})");
  engine.expect_sound();
}

}  // namespace
}  // namespace perdure::engine
