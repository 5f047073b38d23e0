#include "server/loop/worker.h"

#include <boost/asio/executor_work_guard.hpp>
#include <exception>
#include <utility>
#include <vector>

#include "server/loop/connection.h"

namespace perdure::server::loop {

Worker::Worker(Shared& shared)
    : shared_(shared), keeps_running_(context_.get_executor()), ticker_(context_) {}

Worker::~Worker() = default;

// Handlers catch what a request may throw; whatever else is thrown must not end the others' loops.
void Worker::run() {
  while (true) {
    try {
      context_.run();
      return;
    } catch (const std::exception& error) {
      shared_.log.note("server", error.what());
    }
  }
}

void Worker::add(std::shared_ptr<Connection> connection) {
  if (is_finishing_) {
    shared_.connections.fetch_sub(1);
    return;
  }
  connections_.insert(connection);
  if (!is_ticking_) {
    now_ = std::chrono::steady_clock::now();
    wait_for_tick();
  }
  connection->start();
}

void Worker::remove(const std::shared_ptr<Connection>& connection) {
  if (connections_.erase(connection) != 0) shared_.connections.fetch_sub(1);
}

void Worker::wait_for_tick() {
  is_ticking_ = !connections_.empty();
  if (!is_ticking_) return;
  ticker_.expires_after(tick);
  ticker_.async_wait([this](const boost::system::error_code& error) {
    if (!error) on_tick();
  });
}

// Copies, here and below: a connection that ends leaves the set.
void Worker::on_tick() {
  now_ = std::chrono::steady_clock::now();
  const bool is_out_of_patience = is_finishing_ && now_ - finishing_since_ > patience;
  const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all)
    is_out_of_patience ? connection->abort("the server stops") : connection->check_deadlines(now_);
  wait_for_tick();
}

void Worker::finish() {
  is_finishing_ = true;
  finishing_since_ = std::chrono::steady_clock::now();
  const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->finish();
  keeps_running_.reset();
}

}  // namespace perdure::server::loop
