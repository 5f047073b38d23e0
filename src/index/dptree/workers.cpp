#include "index/dptree/workers.h"

#include <chrono>
#include <utility>

#include "pm/pm.h"

namespace perdure::dptree {

void Workers::start(std::function<bool()> serve) {
  if (threads_ == 0) return;
  running_.emplace_back([this, serve = std::move(serve)] { lead(serve); });
  while (running_.size() < threads_) running_.emplace_back([this] { work_along(); });
}

void Workers::ask(Task task) noexcept {
  if ((tasks_.load(std::memory_order_relaxed) & task) != 0 ||
      tasks_.fetch_or(task, std::memory_order_acq_rel) != 0)
    return;
  tasks_.notify_one();
}

void Workers::lead(const std::function<bool()>& serve) {
  constexpr std::chrono::milliseconds until_pinned_threads_run(1);
  for (bool again = false; tasks_.load(std::memory_order_acquire) != stop_task;) {
    if (!again)
      tasks_.wait(0, std::memory_order_acquire);
    else if (tasks_.load(std::memory_order_relaxed) == 0)
      std::this_thread::sleep_for(until_pinned_threads_run);
    again = serve();
  }
}

void Workers::work_along() {
  for (std::uint32_t seen = 0; (seen & end_of_shares) == 0;) {
    shares_.wait(seen, std::memory_order_acquire);
    seen = shares_.load(std::memory_order_acquire);
    while (help()) {
    }
  }
}

void Workers::stop() {
  if (running_.empty()) return;
  ask(stop_task);
  running_.front().join();
  shares_.fetch_or(end_of_shares, std::memory_order_release);
  shares_.notify_all();
  for (std::size_t i = 1; i < running_.size(); ++i) running_[i].join();
  running_.clear();
}

void Workers::share(SharedWork& work) noexcept {
  shared_.store(&work, std::memory_order_seq_cst);
  if (threads_ < 2) return;
  shares_.fetch_add(1, std::memory_order_release);
  shares_.notify_all();
}

void Workers::end_sharing() noexcept {
  shared_.store(nullptr, std::memory_order_seq_cst);
  for (pm::Backoff backoff; helpers_.load(std::memory_order_seq_cst) != 0;) backoff.wait();
}

bool Workers::help() noexcept {
  helpers_.fetch_add(1, std::memory_order_seq_cst);
  SharedWork* const work = shared_.load(std::memory_order_seq_cst);
  const bool helped = work != nullptr && work->work();
  if (helped) pm::fence();  // D8
  helpers_.fetch_sub(1, std::memory_order_release);
  return helped;
}

}  // namespace perdure::dptree
