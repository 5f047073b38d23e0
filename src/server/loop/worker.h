// Worker: one thread's event loop and its connections.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <unordered_set>

#include "server/loop/end_log.h"

namespace perdure::server::loop {

class Connection;

/// What all workers share.
struct Shared {
  std::chrono::milliseconds timeout{};
  EndLog log{};
  std::atomic<unsigned> connections{0};  ///< accepted and not yet closed
};

class Worker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Worker(Shared& shared);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Runs the loop until `finish` was called and all connections are closed.
  void run();

  // From the worker's thread only.
  void add(std::shared_ptr<Connection> connection);
  void remove(const std::shared_ptr<Connection>& connection);
  /// Lets every connection finish what it has in hand; those that take longer than `patience` are
  /// closed.
  void finish();

  [[nodiscard]] boost::asio::io_context& context() noexcept { return context_; }
  [[nodiscard]] Shared& shared() noexcept { return shared_; }
  /// Not older than a tick while there are connections: deadlines need no better.
  [[nodiscard]] Time now() const noexcept { return now_; }

 private:
  static constexpr auto tick = std::chrono::milliseconds(100);
  static constexpr auto patience = std::chrono::seconds(5);

  void wait_for_tick();
  void on_tick();

  Shared& shared_;
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keeps_running_;
  boost::asio::steady_timer ticker_;
  bool is_ticking_ = false;
  bool is_finishing_ = false;
  Time now_{};
  Time finishing_since_{};
  std::unordered_set<std::shared_ptr<Connection>> connections_;
};

}  // namespace perdure::server::loop
