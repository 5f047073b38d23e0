// Acceptor: accepts the clients of one listener and deals them out to the workers.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "server/loop/listening_socket.h"
#include "server/loop/worker.h"
#include "server/server.h"

namespace perdure::server::loop {

/// Deals in turn; all acceptors share one, in the thread of worker 0.
struct Dealer {
  std::vector<std::unique_ptr<Worker>>& workers;
  std::size_t next = 0;

  Worker& deal() { return *workers[next++ % workers.size()]; }
};

class Acceptor {
 public:
  /// `tls` may be null. Everything outlives it.
  Acceptor(Dealer& dealer, Shared& shared, unsigned max_connections, Listener listener,
           std::unique_ptr<ListeningSocket> socket, boost::asio::ssl::context* tls);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  void start();
  /// Closes the listening socket. In the thread of worker 0.
  void stop();
  [[nodiscard]] const Address& address() const noexcept { return socket_->address(); }

 private:
  void accept_all();
  void take(int descriptor, const std::string& client);
  void hand_over(Worker& worker, int descriptor, const std::string& client);
  void refuse(int descriptor);
  [[nodiscard]] std::string name() const;

  Dealer& dealer_;
  Shared& shared_;
  unsigned max_connections_;
  Listener listener_;
  std::unique_ptr<ListeningSocket> socket_;
  int family_;
  boost::asio::ssl::context* tls_;
  boost::asio::posix::stream_descriptor waiter_;
  boost::asio::steady_timer pause_;
};

}  // namespace perdure::server::loop
