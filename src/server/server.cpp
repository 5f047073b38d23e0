#include "server/server.h"

#include <signal.h>
#include <time.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdint>
#include <thread>
#include <utility>

#include "server/loop/acceptor.h"
#include "server/loop/connection.h"
#include "server/loop/tls.h"
#include "server/loop/worker.h"

namespace perdure::server {
namespace {

// Whoever stops a group of processes may send the same signal to us twice (timeout(1) does): that
// is no wish to end at once.
constexpr std::int64_t same_signal_ns = 300'000'000;
std::atomic<std::int64_t> first_signal_ns{0};

// Async-signal-safe.
std::int64_t time_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void on_next_signal(int number) noexcept {
  if (time_ns() - first_signal_ns.load() < same_signal_ns) return;
  signal(number, SIG_DFL);
  raise(number);
}

/// Does not wait for any loop, which may be what does not end. Destroying the signal set brings the
/// system's own handlers back.
void end_at_next_signal() noexcept {
  first_signal_ns.store(time_ns());
  struct sigaction action {};
  action.sa_handler = on_next_signal;
  for (const int number : {SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
}

}  // namespace

class Server::Loops {
 public:
  explicit Loops(const ServerOptions& options) {
    shared_.timeout = options.timeout;
    for (unsigned i = 0; i < options.threads; ++i)
      workers_.push_back(std::make_unique<loop::Worker>(shared_));
    signals_.emplace(workers_.front()->context());
  }

  Result<void> open(std::vector<Listener> listeners, const ServerOptions& options) {
    if (options.tls) {
      auto tls = loop::make_tls(*options.tls);
      if (!tls) return tls.error();
      tls_ = std::move(tls).value();
    }
    for (Listener& listener : listeners) {
      auto socket = loop::ListeningSocket::open(listener.address);
      if (!socket) return socket.error();
      acceptors_.push_back(std::make_unique<loop::Acceptor>(
          dealer_, shared_, options.max_connections, std::move(listener), std::move(socket).value(),
          tls_.get()));
    }
    watch_for_signals();
    return {};
  }

  [[nodiscard]] std::vector<Address> addresses() const {
    std::vector<Address> all;
    for (const auto& acceptor : acceptors_) all.push_back(acceptor->address());
    return all;
  }

  void run() {
    for (const auto& acceptor : acceptors_) acceptor->start();
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < workers_.size(); ++i)
      threads.emplace_back([worker = workers_[i].get()] { worker->run(); });
    workers_.front()->run();
  }

  void stop() {
    boost::asio::post(workers_.front()->context(), [this] { finish(); });
  }

 private:
  void watch_for_signals() {
    for (const int signal : {SIGTERM, SIGINT}) {
      boost::system::error_code ignored;
      signals_->add(signal, ignored);
    }
    signals_->async_wait([this](const boost::system::error_code& error, int) {
      if (!error) finish();
    });
  }

  void finish() {
    if (std::exchange(is_finishing_, true)) return;
    boost::system::error_code ignored;
    signals_->cancel(ignored);
    end_at_next_signal();
    for (const auto& acceptor : acceptors_) acceptor->stop();
    for (const auto& worker : workers_)
      boost::asio::post(worker->context(), [each = worker.get()] { each->finish(); });
  }

  // Connections and timers, which the workers' loops hold, use what stands above them.
  loop::Shared shared_;
  std::unique_ptr<boost::asio::ssl::context> tls_;
  std::vector<std::unique_ptr<loop::Worker>> workers_;
  loop::Dealer dealer_{workers_};
  std::vector<std::unique_ptr<loop::Acceptor>> acceptors_;
  std::optional<boost::asio::signal_set> signals_;
  bool is_finishing_ = false;
};

Server::Server(std::unique_ptr<Loops> loops) : loops_(std::move(loops)) {}

Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::open(std::vector<Listener> listeners,
                                             const ServerOptions& options) {
  auto loops = std::make_unique<Loops>(options);
  if (auto opened = loops->open(std::move(listeners), options); !opened) return opened.error();
  return std::unique_ptr<Server>(new Server(std::move(loops)));
}

std::vector<Address> Server::addresses() const { return loops_->addresses(); }

void Server::run() { loops_->run(); }

void Server::stop() { loops_->stop(); }

}  // namespace perdure::server
