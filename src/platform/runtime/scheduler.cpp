#include "platform/runtime/scheduler.h"

#include <cxxabi.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "platform/runtime/engine.h"
#include "platform/runtime/thread_storage.h"

namespace perdure::platform::runtime {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t stack_guard_bytes = 4096;

// A stack with an inaccessible page before it. The system's own would be as large as the
// shell's limit says, and where it lies would follow from that.
std::byte* new_stack(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes + stack_guard_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, stack_guard_bytes, PROT_NONE) != 0)
    throw std::bad_alloc();
  return static_cast<std::byte*>(memory) + stack_guard_bytes;
}

// The C++ runtime keeps what is being caught per OS thread, here for the one that runs the fibers;
// a fiber that leaves inside a catch block must find its own again, unless it has an OS thread's
// storage to itself.
void* exceptions = nullptr;

void save_exceptions(SimulatedThread& thread) noexcept {
  std::memcpy(thread.exception_state.data(), exceptions, sizeof thread.exception_state);
}
void restore_exceptions(const SimulatedThread& thread) noexcept {
  std::memcpy(exceptions, thread.exception_state.data(), sizeof thread.exception_state);
}

// Jumps, and notes where the one was left that comes back.
void jump(SimulatedThread& from, fcontext_t to) {
  const transfer_t back = jump_fcontext(to, &from);
  static_cast<SimulatedThread*>(back.data)->context = back.fctx;
}

}  // namespace

// Thread-local storage of an OS thread for every simulated one, with the thread carrier. The OS
// threads themselves only wait, until all work is done: libraries give back what they keep per
// thread (arenas of libpmemobj) when one exits. They exit one by one.
// The storage lies at the top of the OS thread's stack. It is the same memory in every run: from
// the C library's own stacks it would be the former run's or not, as their size and its cache of
// them decide.
class Scheduler::Storage {
 public:
  explicit Storage(Scheduler& scheduler) : scheduler_(scheduler) {
    if (scheduler.carrier_ == CarrierKind::fibers) return;
    scheduler.root_.storage = own_thread_storage();
    for (const auto& thread : scheduler.threads_) {
      if (thread->storage_stack == nullptr) thread->storage_stack = new_stack(storage_stack_bytes);
      own(*thread);
      scheduler.root_.baton.acquire();
    }
  }
  ~Storage() {
    if (owners_.empty()) return;
    for (const auto& thread : scheduler_.threads_) {
      thread->baton.release();
      pthread_join(owners_[thread->number], nullptr);
    }
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

 private:
  static constexpr std::size_t storage_stack_bytes = std::size_t{256} << 10;

  void own(SimulatedThread& thread) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, thread.storage_stack, storage_stack_bytes);
    owners_.emplace_back();
    const int error = pthread_create(&owners_.back(), &attributes, wait_for_the_end, &thread);
    pthread_attr_destroy(&attributes);
    if (error == 0) return;
    throw std::system_error(error, std::generic_category(), "no OS thread for a simulated one");
  }

  static void* wait_for_the_end(void* argument) {
    SimulatedThread& thread = *static_cast<SimulatedThread*>(argument);
    thread.storage = own_thread_storage();
    current = &thread;
    engine.scheduler.root_.baton.release();
    thread.baton.acquire();
    current = nullptr;
    return nullptr;
  }

  Scheduler& scheduler_;
  std::vector<pthread_t> owners_;
};

void Scheduler::start(unsigned threads, unsigned background, CarrierKind carrier) {
  carrier_ = carrier;
  foreground_ = threads;
  waiting_.reserve(threads + background);
  for (unsigned number = 0; number < threads + background; ++number) {
    auto thread = std::make_unique<SimulatedThread>();
    thread->number = number;
    thread->stack = new_stack(stack_bytes);
    thread->stack_top = thread->stack + stack_bytes;
    threads_.push_back(std::move(thread));
  }
}

void Scheduler::run(const std::function<void(unsigned)>& job) {
  job_ = &job;
  running_ = true;
  foreground_left_ = foreground_;
  meet(threads_.size());
  for (const auto& thread : threads_) {
    thread->finished = false;
    thread->untimed_run = thread->untimed_accesses = 0;
    thread->failure = nullptr;
    thread->loads.forget();
    thread->context = prepare(*thread);
    insert(key_of(engine.timed ? thread->clock : thread->number, thread->number));
  }
  untimed_turn_ = threads_.size();
  {
    const Storage storage(*this);
    exceptions = abi::__cxa_get_globals();
    SimulatedThread& first = thread_of(take_smallest());
    set_next_clock();
    engine.choose_hooks();
    switch_to(root_, first);
  }
  running_ = false;
  engine.choose_hooks();
  foreground_end_ = meet(foreground_);
  background_time_ += meet(threads_.size()) - foreground_end_;
  for (const auto& thread : threads_)
    if (thread->failure != nullptr) std::rethrow_exception(std::exchange(thread->failure, nullptr));
}

// A run begins and ends for all threads at once.
Time Scheduler::meet(std::size_t threads) {
  Time latest = 0;
  for (std::size_t number = 0; number < threads; ++number)
    latest = std::max(latest, threads_[number]->clock);
  for (std::size_t number = 0; number < threads; ++number) {
    engine.machine->wait_until(static_cast<unsigned>(number), latest);
    engine.read_clock(*threads_[number]);
  }
  return latest;
}

struct FiberEntry {
  static void enter(transfer_t transfer) {
    static_cast<SimulatedThread*>(transfer.data)->context = transfer.fctx;
    SimulatedThread& self = *current;
    engine.scheduler.call_job(self);
    engine.scheduler.finish(self);
    std::abort();  // an ended fiber is never resumed
  }
};

void* Scheduler::prepare(SimulatedThread& thread) {
  thread.exception_state = {};
  return make_fcontext(thread.stack_top, stack_bytes, FiberEntry::enter);
}

void Scheduler::call_job(SimulatedThread& thread) noexcept {
  try {
    (*job_)(thread.number);
  } catch (...) {
    thread.failure = std::current_exception();
  }
}

void Scheduler::finish(SimulatedThread& thread) {
  thread.finished = true;
  if (engine.guarded) engine.guard.settle();
  if (thread.number < foreground_ && --foreground_left_ == 0)
    for (unsigned number = foreground_; number < threads_.size(); ++number)
      wake(*threads_[number], thread.clock);
  const bool last = waiting_.empty();
  if (!events_.empty() && engine.timed)
    call_events(last ? thread.clock
                     : std::min<Time>(thread.clock, waiting_.front() >> number_bits));
  SimulatedThread& next = last ? root_ : thread_of(take_smallest());
  set_next_clock();
  engine.choose_hooks();
  switch_to(thread, next);
}

void Scheduler::yield(SimulatedThread& thread) {
  if (!engine.timed) return yield_untimed(thread);
  const Guard::Turn turn(engine.guard, engine.guarded);
  const Time smallest = waiting_.empty() ? thread.clock : waiting_.front() >> number_bits;
  if (!events_.empty() && events_.back().time <= std::min(thread.clock, smallest))
    call_events(std::min(thread.clock, smallest));
  enter(thread, key_of(thread.clock, thread.number));
}

void Scheduler::yield_untimed(SimulatedThread& thread) {
  const Guard::Turn turn(engine.guard, engine.guarded);
  thread.untimed_run = thread.untimed_accesses = 0;
  enter(thread, key_of(++untimed_turn_, thread.number));
}

void Scheduler::sleep(SimulatedThread& thread) {
  const Guard::Turn turn(engine.guard, engine.guarded);
  thread.asleep = true;
  SimulatedThread& next = thread_of(take_smallest());
  set_next_clock();
  engine.choose_hooks();
  switch_to(thread, next);
}

void Scheduler::wake(SimulatedThread& thread, Time time) {
  if (!std::exchange(thread.asleep, false)) return;
  if (engine.timed) {
    engine.machine->wait_until(thread.number, time);
    engine.read_clock(thread);
  }
  insert(key_of(engine.timed ? thread.clock : ++untimed_turn_, thread.number));
  set_next_clock();
  engine.choose_hooks();
}

void Scheduler::enter(SimulatedThread& from, Key own_key) {
  if (waiting_.empty() || own_key < waiting_.front()) {
    set_next_clock();
  } else {
    SimulatedThread& to = thread_of(waiting_.front());
    waiting_.front() = own_key;
    sift_down();
    set_next_clock();
    switch_to(from, to);
  }
  if (from.transaction != nullptr) [[unlikely]]
    engine.transactions.after_switch(from);
}

void Scheduler::switch_to(SimulatedThread& from, SimulatedThread& to) {
  if (carrier_ == CarrierKind::threads) {
    use_thread_storage(to.storage);  // `current` lies there, and what is being caught
  } else {
    save_exceptions(from);
    restore_exceptions(to);
    current = &to == &root_ ? nullptr : &to;
  }
  jump(from, to.context);
}

void Scheduler::sift_down() noexcept {
  const std::size_t size = waiting_.size();
  const Key moved = waiting_.front();
  std::size_t hole = 0;
  for (std::size_t child = 1; child < size; child = 2 * hole + 1) {
    if (child + 1 < size && waiting_[child + 1] < waiting_[child]) ++child;
    if (waiting_[child] >= moved) break;
    waiting_[hole] = waiting_[child];
    hole = child;
  }
  waiting_[hole] = moved;
}

void Scheduler::insert(Key key) {
  waiting_.push_back(key);
  std::ranges::push_heap(waiting_, std::greater{});
}

Scheduler::Key Scheduler::take_smallest() noexcept {
  std::ranges::pop_heap(waiting_, std::greater{});
  const Key key = waiting_.back();
  waiting_.pop_back();
  return key;
}

void Scheduler::set_next_clock() noexcept {
  next_clock_ = waiting_.empty() ? never : waiting_.front() >> number_bits;
  if (!events_.empty() && events_.back().time < next_clock_) next_clock_ = events_.back().time;
}

void Scheduler::at(Time time, std::function<void()> event) {
  const Event made{time, events_made_++, std::move(event)};
  const auto earlier = [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  };
  events_.insert(std::ranges::upper_bound(events_, made, earlier), made);
  set_next_clock();
}

void Scheduler::call_events(Time until) {
  SimulatedThread* const caller = std::exchange(current, nullptr);
  while (!events_.empty() && events_.back().time <= until) {
    const auto call = std::move(events_.back().call);
    events_.pop_back();
    call();
  }
  current = caller;
}

void Scheduler::reorder() {
  for (const auto& thread : threads_) thread->untimed_run = thread->untimed_accesses = 0;
  std::ranges::sort(waiting_);
  untimed_turn_ = 0;
  for (Key& key : waiting_) {
    const SimulatedThread& thread = thread_of(key);
    key = key_of(engine.timed ? thread.clock : ++untimed_turn_, thread.number);
  }
  std::ranges::make_heap(waiting_, std::greater{});
  set_next_clock();
}

}  // namespace perdure::platform::runtime
