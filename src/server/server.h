// Server: listens, and holds each client's conversation in one of its threads.
//
// One event loop for each thread. Thread 0 accepts and deals the connections out in turn; a
// connection stays with its thread, so nothing of it is locked. What a client may do to the server
// is bounded (loop/connection.h). See design.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "server/address.h"
#include "server/session.h"

namespace perdure::server {

struct Listener {
  Address address;
  std::string protocol;  ///< "redis", for people
  std::function<std::unique_ptr<Session>()> make_session;
  std::string refusal{};  ///< sent to a client that is one too many; may be empty
};

struct TlsFiles {
  std::string certificate;  ///< PEM, with the certificates that lead to its issuer
  std::string key;          ///< PEM, not encrypted
};

struct ServerOptions {
  unsigned threads = 1;
  unsigned max_connections = 1000;
  std::chrono::milliseconds timeout =
      std::chrono::seconds(30);   ///< of half frames, and unread ones
  std::optional<TlsFiles> tls{};  ///< of TCP ports
};

class Server {
 public:
  /// Opens every listener; from then on SIGTERM and SIGINT end `run`. Errors: usage, busy (address
  /// in use), not_found, bad_input (TLS files), io.
  [[nodiscard]] static Result<std::unique_ptr<Server>> open(std::vector<Listener> listeners,
                                                            const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// One for each listener, with the port that it got.
  [[nodiscard]] std::vector<Address> addresses() const;
  /// Serves until SIGTERM or SIGINT, or `stop`. Returns when all requests in hand are answered and
  /// all connections closed; a second signal ends the process at once.
  void run();
  /// Thread-safe.
  void stop();

 private:
  class Loops;
  explicit Server(std::unique_ptr<Loops> loops);

  std::unique_ptr<Loops> loops_;
};

}  // namespace perdure::server
