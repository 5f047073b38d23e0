#include "driver/worker_team.h"

#include <chrono>

#include "driver/topology.h"

extern "C" {
// The entry points that compilers emit for `#pragma omp parallel` and omp_get_thread_num(): called
// by name, every compiler uses the runtime that PiBench wrappers are linked with (libgomp).
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_thread_num(void);
void omp_set_dynamic(int dynamic);
}

namespace perdure::driver {

WorkerTeam::WorkerTeam(unsigned threads, Carrier carrier, std::span<const unsigned> cpus)
    : threads_(threads), carrier_(carrier), cpus_(cpus.begin(), cpus.end()) {
  const unsigned carriers = carrier_ == Carrier::openmp ? 1 : threads_;
  for (unsigned i = 0; i < carriers; ++i) carriers_.emplace_back([this, i] { serve(i); });
}

WorkerTeam::~WorkerTeam() {
  wait();
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& carrier : carriers_) carrier.join();
}

void WorkerTeam::start(Job job) {
  wait();
  {
    const std::scoped_lock lock(mutex_);
    job_ = std::move(job);
    running_ = static_cast<unsigned>(carriers_.size());
    ++jobs_started_;
  }
  changed_.notify_all();
}

void WorkerTeam::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
}

bool WorkerTeam::wait_for(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [this] { return running_ == 0; });
}

void WorkerTeam::serve(unsigned carrier) {
  if (carrier_ == Carrier::threads) pin(carrier);
  for (std::uint64_t served = 0;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || jobs_started_ != served; });
      if (jobs_started_ == served) return;
      served = jobs_started_;
    }
    if (carrier_ == Carrier::openmp)
      run_openmp();
    else
      job_(carrier);
    {
      const std::scoped_lock lock(mutex_);
      --running_;
    }
    changed_.notify_all();
  }
}

void WorkerTeam::run_openmp() {
  omp_set_dynamic(0);  // or the runtime may give fewer threads than asked for, and `Meeting` hangs
  handed_out_.fetch_add(1, std::memory_order_release);
  GOMP_parallel(&WorkerTeam::openmp_entry, this, threads_, 0);
  static_cast<void>(handed_in_.load(std::memory_order_acquire));
  openmp_pinned_ = true;
}

void WorkerTeam::openmp_entry(void* team) {
  auto* const self = static_cast<WorkerTeam*>(team);
  static_cast<void>(self->handed_out_.load(std::memory_order_acquire));
  const auto thread = static_cast<unsigned>(omp_get_thread_num());
  if (!self->openmp_pinned_) self->pin(thread);
  self->job_(thread);
  self->handed_in_.fetch_add(1, std::memory_order_release);
}

void WorkerTeam::pin(unsigned thread) noexcept {
  if (cpus_.empty()) return;
  if (!pin_this_thread(cpus_[thread % cpus_.size()])) pinning_failed_.store(true);
}

}  // namespace perdure::driver
