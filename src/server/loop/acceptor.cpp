#include "server/loop/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "server/loop/connection.h"
#include "server/loop/numeric_address.h"

namespace perdure::server::loop {
namespace {

// After a failure that lasts, such as no more descriptors.
constexpr auto pause_after_failure = std::chrono::milliseconds(100);
constexpr unsigned accepted_at_once = 64;

/// Closed unless it is taken: the way to a worker may fail.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  [[nodiscard]] int take() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

void set_up(int descriptor) {
  const int on = 1;
  // Both fail on a Unix socket, which needs neither.
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

}  // namespace

Acceptor::Acceptor(Dealer& dealer, Shared& shared, unsigned max_connections, Listener listener,
                   std::unique_ptr<ListeningSocket> socket, boost::asio::ssl::context* tls)
    : dealer_(dealer),
      shared_(shared),
      max_connections_(max_connections),
      listener_(std::move(listener)),
      socket_(std::move(socket)),
      family_(family_of(socket_->address())),
      tls_(socket_->address().is_local() ? nullptr : tls),
      waiter_(dealer.workers.front()->context(), socket_->descriptor()),
      pause_(dealer.workers.front()->context()) {}

// The descriptor is the socket's, which closes it.
Acceptor::~Acceptor() {
  if (waiter_.is_open()) waiter_.release();
}

std::string Acceptor::name() const {
  return socket_->address().text() + " (" + listener_.protocol + ")";
}

void Acceptor::start() {
  waiter_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (!error) accept_all();
                     });
}

void Acceptor::stop() {
  pause_.cancel();
  waiter_.release();
  shutdown(socket_->descriptor(), SHUT_RDWR);  // whoever connects from now on is refused
}

void Acceptor::accept_all() {
  for (unsigned i = 0; i < accepted_at_once; ++i) {
    NumericAddress client;
    client.bytes = sizeof client.storage;
    const int descriptor =
        accept4(socket_->descriptor(), reinterpret_cast<sockaddr*>(&client.storage), &client.bytes,
                SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      take(descriptor, client.text());
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      shared_.log.note(name(),
                       std::string("no client can be accepted now: ") + std::strerror(errno));
      pause_.expires_after(pause_after_failure);
      pause_.async_wait([this](const boost::system::error_code& error) {
        if (!error) start();
      });
      return;
    }
  }
  start();
}

void Acceptor::take(int number, const std::string& client) {
  Descriptor descriptor(number);
  if (shared_.connections.load() >= max_connections_) return refuse(number);
  shared_.connections.fetch_add(1);
  set_up(number);
  Worker& worker = dealer_.deal();
  boost::asio::post(worker.context(),
                    [this, &worker, client, held = std::move(descriptor)]() mutable {
                      hand_over(worker, held.take(), client);
                    });
}

// In the thread of the worker.
void Acceptor::hand_over(Worker& worker, int descriptor, const std::string& client) {
  Descriptor held(descriptor);
  try {
    Socket socket(worker.context());
    boost::system::error_code error;
    socket.assign(boost::asio::generic::stream_protocol(family_, 0), descriptor, error);
    if (!error) {
      static_cast<void>(held.take());
      const std::string whose = client.empty() ? name() : name() + ", client " + client;
      return worker.add(
          make_connection(worker, std::move(socket), tls_, {listener_.make_session(), whose}));
    }
    shared_.log.note(name(), error.message());
  } catch (const std::exception& failure) {
    shared_.log.note(name(), std::string("a client could not be served: ") + failure.what());
  }
  shared_.connections.fetch_sub(1);
}

// Best effort: a client that does not read at once sees the end only.
void Acceptor::refuse(int descriptor) {
  shared_.log.note(name(), "a client was refused: " + std::to_string(max_connections_) +
                               " are connected; raise --max-connections");
  if (tls_ != nullptr || listener_.refusal.empty()) return;
  const std::string& text = listener_.refusal;
  if (send(descriptor, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  shutdown(descriptor, SHUT_WR);
  // Unread input would make the system reset the connection, and the client might not see why.
  std::array<char, 4096> unread{};
  while (recv(descriptor, unread.data(), unread.size(), MSG_DONTWAIT) > 0) continue;
}

}  // namespace perdure::server::loop
