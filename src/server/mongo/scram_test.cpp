#include "server/mongo/scram.h"

#include <openssl/sha.h>

#include "server/mongo/test_client.h"

namespace perdure::server::mongo {
namespace {

std::string_view digest_view(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// What a client sends last, given what the server has answered.
std::string client_final(const std::string& bare, const std::string& server_first,
                         const std::string& password) {
  const std::string nonce = server_first.substr(2, server_first.find(",s=") - 2);
  const std::size_t salt_at = server_first.find(",s=") + 3;
  const std::string salt =
      from_base64(server_first.substr(salt_at, server_first.find(",i=") - salt_at)).value();
  const std::string without_proof = "c=biws,r=" + nonce;
  const Digest client_key = hmac(digest_view(salted_password(password, salt)), "Client Key");
  Digest stored;
  SHA256(client_key.data(), client_key.size(), stored.data());
  const Digest signature =
      hmac(digest_view(stored), bare + "," + server_first + "," + without_proof);
  std::string proof;
  for (std::size_t i = 0; i < signature.size(); ++i)
    proof += static_cast<char>(client_key[i] ^ signature[i]);
  return without_proof + ",p=" + to_base64(proof);
}

const std::string bare_first = "n=perdure,r=abcdef";

std::string sasl(const char* name, const std::string& payload) {
  std::string command = std::string(R"({")") + name +
                        R"(": 1, "conversationId": 1, "mechanism": "SCRAM-SHA-256", "payload": )" +
                        R"({"$binary": {"base64": ")" + to_base64(payload) +
                        R"(", "subType": "00"}}})";
  return command;
}

std::string payload_in(const std::string& reply) {
  bson_iter_t field;
  if (!engine::find_field(reply, "payload", field)) return {};
  std::uint32_t length = 0;
  const std::uint8_t* bytes = nullptr;
  bson_subtype_t subtype{};
  bson_iter_binary(&field, &subtype, &length, &bytes);
  return {reinterpret_cast<const char*>(bytes), length};
}

TEST(Scram, RightPasswordProvesItself) {
  const Credentials credentials("perdure", "secret");
  TestClient client(&credentials);
  EXPECT_EQ(client.code(R"({"find": "people"})"), 13);
  EXPECT_EQ(client.code(R"({"nonsense": "people"})"), 13);
  EXPECT_EQ(client.code(R"({"hello": 1})"), 0);
  const std::string first = payload_in(client.run(sasl("saslStart", "n,," + bare_first)));
  const std::string last =
      client.run(sasl("saslContinue", client_final(bare_first, first, "secret")));
  EXPECT_TRUE(payload_in(last).starts_with("v="));
  EXPECT_EQ(client.code(sasl("saslContinue", "")), 0);
  EXPECT_EQ(client.code(R"({"find": "people"})"), 0);
}

TEST(Scram, WrongPasswordUserOrMechanismFails) {  // A2
  const Credentials credentials("perdure", "secret");
  TestClient client(&credentials);
  std::string first = payload_in(client.run(sasl("saslStart", "n,," + bare_first)));
  EXPECT_EQ(client.code(sasl("saslContinue", client_final(bare_first, first, "guess"))), 18);
  EXPECT_EQ(client.code(sasl("saslContinue", "")), 18);
  first = payload_in(client.run(sasl("saslStart", "n,,n=other,r=abcdef")));
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(client.code(sasl("saslContinue", client_final("n=other,r=abcdef", first, "secret"))),
            18);
  EXPECT_EQ(client.code(R"({"saslStart": 1, "mechanism": "PLAIN", "payload": ""})"), 18);
  EXPECT_EQ(client.code(R"({"find": "people"})"), 13);
}

TEST(Scram, RecordedConversationIsOfNoUse) {  // A1
  const Credentials credentials("perdure", "secret");
  TestClient client(&credentials);
  const std::string first = payload_in(client.run(sasl("saslStart", "n,," + bare_first)));
  const std::string recorded = sasl("saslContinue", client_final(bare_first, first, "secret"));
  EXPECT_EQ(client.code(recorded), 0);
  client.reconnect();
  EXPECT_NE(payload_in(client.run(sasl("saslStart", "n,," + bare_first))), first);
  EXPECT_EQ(client.code(recorded), 18);
  EXPECT_EQ(client.code(R"({"find": "people"})"), 13);
}

TEST(Scram, BeginsInsideTheHandshake) {
  const Credentials credentials("perdure", "secret");
  TestClient client(&credentials);
  const std::string start = sasl("saslStart", "n,," + bare_first);
  const std::string reply = client.run(
      R"({"hello": 1, "saslSupportedMechs": "admin.perdure", "speculativeAuthenticate": )" + start +
      "}");
  bson_iter_t field;
  ASSERT_TRUE(engine::find_field(reply, "speculativeAuthenticate", field));
  const std::string first = payload_in(std::string(engine::bytes_of(field)));
  ASSERT_TRUE(engine::find_field(reply, "saslSupportedMechs", field));
  EXPECT_EQ(client.code(sasl("saslContinue", client_final(bare_first, first, "secret"))), 0);
  EXPECT_EQ(client.code(R"({"find": "people"})"), 0);
}

TEST(Scram, LongMessagesEndTheConnectionBeforeAuthentication) {
  const Credentials credentials("perdure", "secret");
  TestClient client(&credentials);
  std::string output;
  EXPECT_FALSE(
      client.session()
          .consume(message_of(R"({"hello": ")" + std::string(100000, 'x') + R"("})"), output)
          .ok());
}

TEST(Scram, MalformedMessagesFail) {
  const Credentials credentials("perdure", "secret");
  for (const char* first : {"", "n,,", "n,,n=perdure", "n,,n=perdure,r=", "p=tls,,n=perdure,r=a"}) {
    Scram scram(credentials);
    EXPECT_FALSE(scram.begin(first).has_value()) << first;
  }
  for (const char* last :
       {"", "c=biws", "c=biws,r=x,p=", "c=biws,r=x,p=!!!!", "r=x,c=biws,p=AAAA"}) {
    Scram scram(credentials);
    ASSERT_TRUE(scram.begin("n,,n=perdure,r=abc").has_value());
    EXPECT_FALSE(scram.finish(last).has_value()) << last;
  }
  Scram scram(credentials);
  EXPECT_FALSE(scram.finish("c=biws,r=,p=AAAA").has_value());
}

}  // namespace
}  // namespace perdure::server::mongo
