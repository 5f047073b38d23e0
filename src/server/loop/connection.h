// Connection: a session on a socket, with or without TLS, in one worker's thread.
//
//   receive -> input buffer -> Session::consume -> replies -> send
//
// C1  while replies of more than `output_mark_bytes` wait, nothing is received or consumed: a
// client
//     that does not read stops itself.
// C2  a request that has begun must be whole, and replies must be read, within a deadline.
// C3  what the session has answered is sent before the connection ends, unless the client is gone
//     or too slow.
// C4  it ends once: `close` takes it from its worker. A reason is logged, the end that a client
//     chose is none.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "server/loop/worker.h"
#include "server/session.h"

namespace perdure::server::loop {

using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol,
                                                boost::asio::io_context::executor_type>;

class Connection {
 public:
  Connection() = default;
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  virtual void start() = 0;
  /// Answers what was received, then ends.
  virtual void finish() = 0;
  /// Ends now.
  virtual void abort(std::string_view reason) = 0;
  virtual void check_deadlines(Worker::Time now) = 0;
};

/// What a connection serves.
struct Conversation {
  std::unique_ptr<Session> session;
  std::string name;  ///< for the log: "127.0.0.1:6379 (redis)"
};

/// `tls` may be null. Both outlive the connection.
[[nodiscard]] std::shared_ptr<Connection> make_connection(Worker& worker, Socket socket,
                                                          boost::asio::ssl::context* tls,
                                                          Conversation conversation);

}  // namespace perdure::server::loop
