#include "server/mongo/wire.h"

#include "core/rng.h"
#include "server/mongo/test_client.h"

namespace perdure::server::mongo {
namespace {

TEST(MongoWire, WaitsForTheRestOfAMessage) {
  TestClient client;
  const std::string message = message_of(R"({"ping": 1, "$db": "admin"})");
  for (std::size_t bytes = 0; bytes < message.size(); ++bytes) {
    std::string output;
    const Result<std::size_t> taken = client.session().consume(message.substr(0, bytes), output);
    ASSERT_TRUE(taken.ok());
    EXPECT_EQ(*taken, 0U);
    EXPECT_TRUE(output.empty());
  }
}

TEST(MongoWire, AnswersEveryMessageOfAPipeline) {
  TestClient client;
  const std::string message = message_of(R"({"ping": 1, "$db": "admin"})");
  std::string output;
  const auto taken = client.session().consume(message + message + message.substr(0, 9), output);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(*taken, 2 * message.size());
  EXPECT_EQ(document_in(output.substr(0, output.size() / 2)),
            document_in(output.substr(output.size() / 2)));
}

TEST(MongoWire, EndsTheConnectionAtBrokenFrames) {  // W1
  const std::string good = engine::document(R"({"ping": 1, "$db": "admin"})");
  const std::string flags("\0\0\0\0", 4);
  const std::string zero("\0", 1);
  for (const std::string& message :
       {framed(2013, ""), framed(2013, flags), framed(2013, flags + zero),
        framed(2013, flags + zero + good.substr(0, 9)), framed(2013, flags + "\2" + good),
        framed(2013, flags + zero + good + zero + good),
        framed(2013, std::string("\4\0\0\0", 4) + zero + good),
        framed(2013, flags + "\1" + std::string("\377\377\377\177", 4) + "documents"),
        framed(2013, flags + "\1" + std::string("\5\0\0\0", 4) + "d"),
        framed(2012, flags + zero + good), framed(1, good), framed(2004, flags + "admin.$cmd"),
        framed(2004, flags + std::string("test.people\0\0\0\0\0\0\0\0\0", 20) + good),
        std::string("\0\0\0\0", 4) + std::string(12, '\0'),
        std::string("\xFF\xFF\xFF\x7F", 4) + std::string(12, '\0')}) {
    TestClient client;
    std::string output;
    EXPECT_FALSE(client.session().consume(message, output).ok());
    EXPECT_TRUE(output.empty());
  }
}

TEST(MongoWire, SurvivesGarbage) {
  Rng random(5);
  TestClient client;
  const std::string whole = message_of(R"({"insert": "people", "documents": [{"a": [1, "x"]}],
                                          "$db": "test"})");
  for (int i = 0; i < 20000; ++i) {
    std::string message = whole;
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes)
      message[16 + random.below(message.size() - 16)] = static_cast<char>(random());
    client.reconnect();
    std::string output;
    (void)client.session().consume(message, output);
  }
  client.engine().expect_sound();
}

TEST(MongoWire, VerifiesChecksumsAndGivesThem) {
  TestClient client;
  std::string message = with_checksum(message_of(R"({"ping": 1, "$db": "admin"})"));
  std::string output;
  ASSERT_TRUE(client.session().consume(message, output).ok());
  ASSERT_GT(output.size(), 4U);
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, output.data() + output.size() - 4, 4);
  EXPECT_EQ(checksum, engine::extend_crc(0, output.substr(0, output.size() - 4)));
  message[30] = static_cast<char>(message[30] ^ 1);
  EXPECT_FALSE(client.session().consume(message, output).ok());
}

TEST(MongoWire, GivesNoReplyWhereNoneIsWanted) {
  TestClient client;
  std::string output;
  const std::string message =
      message_of(R"({"insert": "people", "documents": [{"_id": 1}], "$db": "test"})", 2);
  ASSERT_TRUE(client.session().consume(message, output).ok());
  EXPECT_TRUE(output.empty());
  EXPECT_EQ(client.engine().ids("{}"), "1");
}

TEST(MongoWire, TakesDocumentsFromASequence) {
  TestClient client;
  std::string payload(4, '\0');
  std::string sequence = std::string("documents") + '\0' + engine::document(R"({"_id": 1})") +
                         engine::document(R"({"_id": 2})");
  payload += '\1';
  append_word(static_cast<std::uint32_t>(sequence.size() + 4), payload);
  payload += sequence;
  payload += '\0';
  payload += engine::document(R"({"insert": "people", "$db": "test"})");
  const std::string reply = client.run_message(framed(2013, payload));
  EXPECT_EQ(TestClient::number_in(reply, "n"), 2);
  EXPECT_EQ(client.engine().ids("{}"), "1 2");
}

TEST(MongoWire, MalformedDocumentsAreRefusedBeforeAnythingIsTouched) {  // W2
  TestClient client;
  std::string second = engine::document(R"({"_id": 2, "x": "y"})");
  second[second.size() - 2] = 'z';  // the string's end
  std::string payload(4, '\0');
  std::string sequence =
      std::string("documents") + '\0' + engine::document(R"({"_id": 1})") + second;
  payload += '\0';
  payload += engine::document(R"({"insert": "people", "$db": "test"})");
  payload += '\1';
  append_word(static_cast<std::uint32_t>(sequence.size() + 4), payload);
  payload += sequence;
  EXPECT_EQ(TestClient::code_of(client.run_message(framed(2013, payload))), 22);
  EXPECT_EQ(client.engine().ids("{}"), "");
}

TEST(MongoWire, AnswersOldDriversInTheirWay) {
  TestClient client;
  std::string payload(4, '\0');
  payload += std::string("admin.$cmd") + '\0';
  append_word(0, payload);
  append_word(1, payload);
  payload += engine::document(R"({"isMaster": 1})");
  std::string output;
  ASSERT_TRUE(client.session().consume(framed(2004, payload), output).ok());
  ASSERT_GT(output.size(), 36U);
  EXPECT_EQ(output[12], 1);  // OP_REPLY
  EXPECT_EQ(output[32], 1);  // one document
  EXPECT_EQ(TestClient::number_in(output.substr(36), "ok"), 1);
}

}  // namespace
}  // namespace perdure::server::mongo
