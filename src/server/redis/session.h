// RedisSession: RESP2 over a store. The commands are GET SET DEL EXISTS MGET MSET SCAN DBSIZE, INFO
// CONFIG COMMAND, PING ECHO SELECT AUTH HELLO QUIT; anything else is an error, and so is every
// option that would change what a command means.
//
// R1  a reply to a write is appended after the write is durable.
// R2  before the right password (if the server has one) nothing but AUTH, HELLO and QUIT is
//     executed, and requests are short.
// R3  whatever the store says becomes a reply; only a broken protocol ends the conversation.
#pragma once

#include <chrono>
#include <span>

#include "server/password.h"
#include "server/redis/cursors.h"
#include "server/redis/key_values.h"
#include "server/redis/request_reader.h"
#include "server/session.h"

namespace perdure::server::redis {

/// What all sessions of a server share.
struct RedisService {
  KeyValues* values = nullptr;
  const Password* password = nullptr;  ///< null: none is needed
  std::string version = "unknown";     ///< of the project
  Cursors cursors{1};
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

class RedisSession final : public Session {
 public:
  /// `service` outlives the session.
  explicit RedisSession(RedisService& service)
      : service_(service), is_known_(service.password == nullptr) {}

  Result<std::size_t> consume(std::string_view input, std::string& output) override;
  [[nodiscard]] bool wants_end() const noexcept override { return wants_end_; }

 private:
  using Arguments = std::span<const std::string_view>;
  /// A command: the function gets all arguments, its name first.
  struct Command {
    std::string_view name;
    std::size_t least_arguments;
    std::size_t most_arguments;
    void (RedisSession::*run)(Arguments, std::string&);
    bool before_password = false;
  };
  static const Command* find(std::string_view name) noexcept;

  void execute(Arguments arguments, std::string& out);

  // data_commands.cpp
  void get(Arguments arguments, std::string& out);
  void set(Arguments arguments, std::string& out);
  void set_plainly(std::string_view key, std::string_view value, Put kind, std::string& out);
  void set_and_tell(std::string_view key, std::string_view value, Put kind, std::string& out);
  void del(Arguments arguments, std::string& out);
  void exists(Arguments arguments, std::string& out);
  void mget(Arguments arguments, std::string& out);
  void mset(Arguments arguments, std::string& out);
  void scan(Arguments arguments, std::string& out);
  void dbsize(Arguments arguments, std::string& out);

  // server_commands.cpp
  void ping(Arguments arguments, std::string& out);
  void echo(Arguments arguments, std::string& out);
  void select(Arguments arguments, std::string& out);
  void auth(Arguments arguments, std::string& out);
  void hello(Arguments arguments, std::string& out);
  void quit(Arguments arguments, std::string& out);
  void info(Arguments arguments, std::string& out);
  void config(Arguments arguments, std::string& out);
  void command(Arguments arguments, std::string& out);
  /// True when name and password are right; else the refusal is appended.
  bool check_password(std::string_view user, std::string_view password, std::string& out);

  RedisService& service_;
  RequestReader reader_;
  std::string value_;  ///< reused, so that no lookup allocates once it has grown
  unsigned wrong_passwords_ = 0;
  bool is_known_;
  bool wants_end_ = false;
};

/// Whether `text` is `word`, a lower-case one, in any case.
[[nodiscard]] bool is_word(std::string_view text, std::string_view word) noexcept;

}  // namespace perdure::server::redis
