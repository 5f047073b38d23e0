// MongoSession: one MongoDB client's conversation. Commands are executed as they come; each has a
// reply, unless the client has asked for none.
//
// M1  a reply to a write is appended after the write is durable.
// M2  with a password, nothing but the handshake is executed before the client has proved that it
//     knows it, and requests are short.
// M3  what a command does not know, an option or a field that would change what it means, is an
// error
//     that names it. Whatever the engine says becomes a reply; only a broken frame ends the
//     conversation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/document/engine.h"
#include "server/mongo/cursor_table.h"
#include "server/mongo/scram.h"
#include "server/session.h"

namespace perdure::server::mongo {

/// What all sessions of a server share.
struct MongoService {
  engine::Engine* engine = nullptr;
  const Credentials* credentials = nullptr;  ///< null: no password is needed
  std::string version = "unknown";           ///< of the project
  CursorTable cursors{};
  std::atomic<std::int32_t> last_connection{0};
  std::atomic<std::int32_t> connections{0};
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

class MongoSession final : public Session {
 public:
  /// `service` outlives the session.
  explicit MongoSession(MongoService& service);
  ~MongoSession() override;

  Result<std::size_t> consume(std::string_view input, std::string& output) override;

 private:
  friend class Authentication;

  MongoService& service_;
  const std::int32_t number_;
  bool is_known_;
  std::optional<Scram> scram_;
  bool has_proved_ = false;  ///< and has one more, empty, message to send
};

}  // namespace perdure::server::mongo
