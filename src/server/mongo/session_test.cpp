#include "server/mongo/session.h"

#include "server/mongo/test_client.h"

namespace perdure::server::mongo {
namespace {

using engine::document;
using engine::json_of;

TEST(MongoSession, ReportsWrites) {
  TestClient client;
  EXPECT_EQ(client.json(R"({"insert": "people", "documents": [{"_id": 1, "a": 1}, {"_id": 2}]})"),
            json_of(document(R"({"n": 2, "ok": 1.0})")));
  EXPECT_EQ(client.json(R"({"update": "people", "updates": [
                {"q": {"_id": 1}, "u": {"$set": {"a": 1}}},
                {"q": {"_id": 2}, "u": {"$set": {"a": 2}}},
                {"q": {"_id": 9}, "u": {"b": 1}, "upsert": true}]})"),
            json_of(document(
                R"({"n": 3, "nModified": 1, "upserted": [{"index": 2, "_id": 9}], "ok": 1.0})")));
  EXPECT_EQ(client.json(R"({"delete": "people", "deletes": [{"q": {}, "limit": 1},
                {"q": {"_id": {"$gt": 1}}, "limit": 0}]})"),
            json_of(document(R"({"n": 3, "ok": 1.0})")));
}

TEST(MongoSession, OrderedWritesStopAtTheFirstError) {
  TestClient client;
  const std::string command =
      R"({"insert": "people", "documents": [{"_id": 1}, {"_id": 1}, {"_id": 2}], "ordered": )";
  std::string reply = client.run(command + "true}");
  EXPECT_EQ(TestClient::number_in(reply, "n"), 1);
  EXPECT_NE(json_of(reply).find("\"code\" : 11000"), std::string::npos) << json_of(reply);
  EXPECT_EQ(client.engine().ids("{}"), "1");
  reply = client.run(command + "false}");
  EXPECT_EQ(TestClient::number_in(reply, "n"), 1);
  EXPECT_EQ(client.engine().ids("{}"), "1 2");
}

TEST(MongoSession, CursorsGoOnInAnotherConnection) {
  TestClient client;
  for (int i = 0; i < 10; ++i)
    client.engine().insert((R"({"_id": )" + std::to_string(i) + "}").c_str());
  const std::string first = client.run(R"({"find": "people", "batchSize": 4})");
  bson_iter_t cursor;
  ASSERT_TRUE(engine::find_field(first, "cursor", cursor));
  const std::int64_t id = TestClient::number_in(std::string(engine::bytes_of(cursor)), "id");
  ASSERT_NE(id, 0);
  client.reconnect();
  const std::string more = R"({"getMore": {"$numberLong": ")" + std::to_string(id) +
                           R"("}, "collection": "people", "batchSize": 3})";
  EXPECT_NE(client.json(more).find(R"("_id" : 6)"), std::string::npos);
  EXPECT_NE(client.json(more).find(R"("_id" : 9)"), std::string::npos);
  EXPECT_EQ(client.code(more), 43);
  EXPECT_EQ(client.service().cursors.size(), 0U);
}

TEST(MongoSession, KilledCursorsAreGone) {
  TestClient client;
  client.engine().insert(R"({"_id": 1})");
  client.engine().insert(R"({"_id": 2})");
  const std::string first = client.run(R"({"find": "people", "batchSize": 1})");
  bson_iter_t cursor;
  ASSERT_TRUE(engine::find_field(first, "cursor", cursor));
  const std::int64_t id = TestClient::number_in(std::string(engine::bytes_of(cursor)), "id");
  const std::string number = R"({"$numberLong": ")" + std::to_string(id) + R"("})";
  EXPECT_EQ(client.code(R"({"killCursors": "people", "cursors": [)" + number + "]}"), 0);
  EXPECT_EQ(client.code(R"({"getMore": )" + number + R"(, "collection": "people"})"), 43);
}

TEST(MongoSession, CountsInBothWaysOfDrivers) {
  TestClient client;
  for (int i = 0; i < 10; ++i)
    client.engine().insert((R"({"a": )" + std::to_string(i) + "}").c_str());
  EXPECT_EQ(TestClient::number_in(client.run(R"({"count": "people"})"), "n"), 10);
  EXPECT_EQ(TestClient::number_in(
                client.run(R"({"count": "people", "query": {"a": {"$lt": 4}}, "skip": 1})"), "n"),
            3);
  EXPECT_NE(client
                .json(R"({"aggregate": "people", "cursor": {}, "pipeline": [
                      {"$match": {"a": {"$lt": 7}}}, {"$skip": 2},
                      {"$group": {"_id": 1, "n": {"$sum": 1}}}]})")
                .find(R"("n" : 5)"),
            std::string::npos);
  EXPECT_NE(client
                .json(R"({"aggregate": "people", "cursor": {}, "pipeline": [
                      {"$match": {"a": {"$lt": 7}}}, {"$count": "all"}]})")
                .find(R"("all" : 7)"),
            std::string::npos);
}

TEST(MongoSession, RefusesOtherPipelines) {
  TestClient client;
  for (const char* pipeline : {R"([])", R"([{"$match": {}}])", R"([{"$project": {"a": 1}}])",
                               R"([{"$group": {"_id": "$a", "n": {"$sum": 1}}}])",
                               R"([{"$group": {"_id": 1, "n": {"$sum": 2}}}])",
                               R"([{"$limit": 1}, {"$match": {}}, {"$count": "n"}])",
                               R"([{"$count": "n"}, {"$limit": 1}])"})
    EXPECT_EQ(client.code(std::string(R"({"aggregate": "people", "cursor": {}, "pipeline": )") +
                          pipeline + "}"),
              2)
        << pipeline;
}

TEST(MongoSession, NamesWhatItDoesNotKnow) {
  TestClient client;
  EXPECT_EQ(client.code(R"({"mapReduce": "people"})"), 59);
  EXPECT_NE(client.json(R"({"mapReduce": "people"})").find("mapReduce"), std::string::npos);
  EXPECT_EQ(client.code(R"({"find": "people", "collation": {"locale": "de"}})"), 40415);
  EXPECT_EQ(client.code(R"({"find": "people", "tailable": true})"), 40415);
  EXPECT_EQ(client.code(R"({"insert": "people", "documents": [{}], "txnNumber": 1})"), 20);
  EXPECT_EQ(client.code(R"({"find": "people", "filter": {"a": {"$size": 1}}})"), 2);
  EXPECT_EQ(client.code(R"({"find": "people", "skip": -1})"), 2);
  EXPECT_EQ(client.code(R"({"insert": "people", "documents": []})"), 16);
  EXPECT_EQ(client.code(R"({"update": "people", "updates": [{"q": {}, "u": [{"$set": {}}]}]})"), 9);
}

TEST(MongoSession, MakesListsAndDropsIndexes) {
  TestClient client;
  EXPECT_EQ(client.json(R"({"createIndexes": "people", "indexes": [
                {"key": {"a": 1}, "name": "a_1", "unique": true}]})"),
            json_of(document(R"({"numIndexesBefore": 1, "numIndexesAfter": 2,
                                 "createdCollectionAutomatically": true, "ok": 1.0})")));
  EXPECT_EQ(client.json(R"({"listIndexes": "people"})"),
            json_of(document(R"({"cursor": {"firstBatch": [
                {"v": 2, "key": {"_id": 1}, "name": "_id_"},
                {"v": 2, "key": {"a": 1}, "name": "a_1", "unique": true}],
                "id": {"$numberLong": "0"}, "ns": "test.people"}, "ok": 1.0})")));
  EXPECT_EQ(client.code(R"({"createIndexes": "people", "indexes": [
                {"key": {"a": 1, "b": 1}, "name": "two"}]})"),
            67);
  EXPECT_EQ(client.code(R"({"createIndexes": "people", "indexes": [
                {"key": {"b": 1}, "name": "b", "expireAfterSeconds": 5}]})"),
            67);
  EXPECT_EQ(client.code(R"({"dropIndexes": "people", "index": "_id_"})"), 72);
  EXPECT_EQ(client.code(R"({"dropIndexes": "people", "index": "b_1"})"), 27);
  EXPECT_EQ(client.code(R"({"dropIndexes": "people", "index": {"a": 1}})"), 0);
  EXPECT_EQ(client.code(R"({"listIndexes": "nobody"})"), 26);
}

TEST(MongoSession, ListsAndDropsCollections) {
  TestClient client;
  EXPECT_EQ(client.code(R"({"insert": "people", "documents": [{}]})"), 0);
  EXPECT_EQ(client.code(R"({"insert": "things", "documents": [{}]})"), 0);
  EXPECT_EQ(
      client.json(R"({"listCollections": 1, "nameOnly": true, "filter": {"name": "things"}})"),
      json_of(document(R"({"cursor": {"firstBatch": [{"name": "things", "type": "collection"}],
                "id": {"$numberLong": "0"}, "ns": "test.$cmd.listCollections"}, "ok": 1.0})")));
  EXPECT_EQ(client.code(R"({"drop": "things"})"), 0);
  EXPECT_EQ(client.code(R"({"drop": "things"})"), 26);
  EXPECT_EQ(client.code(R"({"collStats": "people"})"), 0);
  EXPECT_EQ(client.code(R"({"dbStats": 1})"), 0);
  EXPECT_EQ(client.code(R"({"serverStatus": 1})"), 0);
  EXPECT_EQ(client.json(R"({"dropDatabase": 1})"),
            json_of(document(R"({"dropped": "test", "ok": 1.0})")));
  EXPECT_EQ(client.json(R"({"listDatabases": 1, "nameOnly": true})"),
            json_of(document(R"({"databases": [], "ok": 1.0})")));
}

TEST(CursorTable, ForgetsCursorsThatNobodyUses) {  // K2, K3
  engine::EngineInImage engine;
  CursorTable table(2);
  const auto start = CursorTable::Clock::now();
  const auto add = [&](std::chrono::seconds after) {
    return table.add({engine.people().find().value(), "test.people"}, start + after);
  };
  using std::chrono::seconds;
  const std::int64_t first = add(seconds(0));
  const std::int64_t second = add(seconds(1));
  const std::int64_t third = add(seconds(2));
  EXPECT_FALSE(table.take(first, "test.people", start + seconds(3)).has_value());
  EXPECT_FALSE(table.take(second, "test.things", start + seconds(3)).has_value());
  auto item = table.take(second, "test.people", start + seconds(3));
  ASSERT_TRUE(item.has_value());
  EXPECT_FALSE(table.take(second, "test.people", start + seconds(3)).has_value());  // K1
  table.put_back(second, std::move(*item), start + seconds(300));
  EXPECT_FALSE(table.take(third, "test.people", start + seconds(602)).has_value());
  EXPECT_TRUE(table.take(second, "test.people", start + seconds(602)).has_value());
}

}  // namespace
}  // namespace perdure::server::mongo
