// A MongoDB client for tests, without a socket.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "engine/document/test_engine.h"
#include "engine/store/record.h"
#include "server/mongo/session.h"

namespace perdure::server::mongo {

inline void append_word(std::uint32_t word, std::string& out) {
  out.append(reinterpret_cast<const char*>(&word), sizeof word);
}

/// A whole message around `payload`.
inline std::string framed(std::int32_t operation, std::string_view payload) {
  std::string message;
  append_word(static_cast<std::uint32_t>(16 + payload.size()), message);
  append_word(7, message);
  append_word(0, message);
  append_word(static_cast<std::uint32_t>(operation), message);
  return message.append(payload);
}

/// OP_MSG with one document, from JSON.
inline std::string message_of(std::string_view json, std::uint32_t flags = 0) {
  std::string payload;
  append_word(flags, payload);
  payload += '\0';
  payload += engine::document(json);
  return framed(2013, payload);
}

inline std::string with_checksum(std::string message) {
  const auto length = static_cast<std::uint32_t>(message.size() + 4);
  std::memcpy(message.data(), &length, sizeof length);
  message[16] = static_cast<char>(message[16] | 1);
  append_word(engine::extend_crc(0, message), message);
  return message;
}

/// The document of one reply to OP_MSG.
inline std::string document_in(std::string_view reply) {
  return reply.size() > 21 ? std::string(reply.substr(21)) : std::string("\5\0\0\0\0", 5);
}

class TestClient {
 public:
  explicit TestClient(const Credentials* credentials = nullptr) {
    service_.engine = engine_.operator->();
    service_.credentials = credentials;
    reconnect();
  }
  void reconnect() { session_ = std::make_unique<MongoSession>(service_); }

  [[nodiscard]] engine::EngineInImage& engine() noexcept { return engine_; }
  [[nodiscard]] MongoSession& session() noexcept { return *session_; }
  [[nodiscard]] MongoService& service() noexcept { return service_; }

  /// The reply to a command, as bytes of a document; `db` is added.
  std::string run(std::string_view json) {
    std::string command(json.substr(0, json.rfind('}')));
    command += R"(, "$db": "test"})";
    return run_message(message_of(command));
  }
  std::string run_message(const std::string& message) {
    std::string output;
    const Result<std::size_t> taken = session_->consume(message, output);
    EXPECT_TRUE(taken.ok()) << taken.error().line();
    EXPECT_EQ(taken.ok() ? *taken : 0, message.size());
    const std::string document = document_in(output);
    EXPECT_TRUE(engine::check_document(document).ok());
    return document;
  }
  std::string json(std::string_view command) { return engine::json_of(run(command)); }
  /// 0: it succeeded.
  std::int64_t code(std::string_view command) { return code_of(run(command)); }
  static std::int64_t code_of(const std::string& reply) { return number_in(reply, "code", 0); }
  static std::int64_t number_in(const std::string& reply, std::string_view name,
                                std::int64_t otherwise = -1) {
    bson_iter_t field;
    std::int64_t value = otherwise;
    if (engine::find_field(reply, name, field)) (void)engine::as_whole(field, value);
    return value;
  }

 private:
  engine::EngineInImage engine_;
  MongoService service_;
  std::unique_ptr<MongoSession> session_;
};

}  // namespace perdure::server::mongo
