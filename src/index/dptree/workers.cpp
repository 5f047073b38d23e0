#include "index/dptree/workers.h"

#include <utility>

#include "pm/pm.h"

namespace perdure::dptree {

// No thread looks at `running_` before the leader is woken.
void Workers::start(std::function<bool()> serve) {
  const auto add = [this](pm::BackgroundThread::Serve does) {
    if (running_.emplace_back().start(std::move(does))) return true;
    running_.pop_back();
    return false;
  };
  if (threads_ != 0 && add(std::move(serve)))
    while (running_.size() < threads_ && add([this] {
             while (help()) {
             }
             return false;
           })) {
    }
  if (exist()) running_.front().wake();  // for what was asked before
}

void Workers::ask(Task task) noexcept {
  if ((tasks_.load(std::memory_order_relaxed) & task) == 0 &&
      tasks_.fetch_or(task, std::memory_order_acq_rel) == 0 && exist())
    running_.front().wake();
}

// The leader first: what it merges may be shared.
void Workers::stop() {
  for (pm::BackgroundThread& thread : running_) thread.stop();
  running_.clear();
}

void Workers::share(SharedWork& work) noexcept {
  shared_.store(&work, std::memory_order_seq_cst);
  for (std::size_t i = 1; i < running_.size(); ++i) running_[i].wake();
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
