#include "crash/fibers.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>
#include <new>

#include "core/assert.h"

namespace perdure::crash {
namespace {

namespace context = boost::context::detail;

}  // namespace

/// A stack with a page below it that faults.
struct Fibers::Stack {
  static constexpr std::size_t guard_bytes = 4096;
  std::byte* base;

  Stack() {
    void* const memory = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base = static_cast<std::byte*>(memory);
    mprotect(base, guard_bytes, PROT_NONE);
  }
  ~Stack() { munmap(base, stack_bytes + guard_bytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  [[nodiscard]] void* top() const noexcept { return base + guard_bytes + stack_bytes; }
};

// What travels through a jump: who leaves must have its context stored by who arrives.
struct Fibers::Entry {
  Fibers* fibers;
  unsigned from;  ///< a fiber, or `main_stack`
  static constexpr unsigned main_stack = ~0U;

  static void arrived(const context::transfer_t& transfer) noexcept {
    const auto* const entry = static_cast<const Entry*>(transfer.data);
    if (entry->from == main_stack)
      entry->fibers->main_ = transfer.fctx;
    else
      entry->fibers->fiber_[entry->from].context = transfer.fctx;
  }

  static void start(context::transfer_t transfer) {
    Fibers& fibers = *static_cast<const Entry*>(transfer.data)->fibers;
    arrived(transfer);
    const unsigned me = fibers.running_;
    (*fibers.job_)(me);
    fibers.fiber_[me].ended = true;
    bool more = false;
    for (const Fiber& fiber : fibers.fiber_) more = more || !fiber.ended;
    Entry leave{&fibers, me};
    const unsigned next = more ? (*fibers.next_)() : nobody;
    if (next != nobody) {
      fibers.running_ = next;
      PERDURE_ASSERT(!fibers.fiber_[fibers.running_].ended);
      context::jump_fcontext(fibers.fiber_[fibers.running_].context, &leave);
    } else {
      context::jump_fcontext(fibers.main_, &leave);
    }
    std::abort();  // an ended fiber is never resumed
  }
};

Fibers::Fibers() = default;
Fibers::~Fibers() = default;

void Fibers::run(unsigned count, unsigned first, const std::function<void(unsigned)>& job,
                 const std::function<unsigned()>& next) {
  PERDURE_ASSERT(!inside_ && first < count);
  job_ = &job;
  next_ = &next;
  fiber_.assign(count, {});
  while (stacks_.size() < count) stacks_.push_back(std::make_unique<Stack>());
  for (unsigned i = 0; i < count; ++i)
    fiber_[i].context = context::make_fcontext(stacks_[i]->top(), stack_bytes, Entry::start);
  running_ = first;
  inside_ = true;
  Entry enter{this, Entry::main_stack};
  context::jump_fcontext(fiber_[first].context, &enter);
  inside_ = false;
}

std::span<std::byte> Fibers::stack() const noexcept {
  return {stacks_[running_]->base + Stack::guard_bytes, stack_bytes};
}

void Fibers::switch_to(unsigned fiber) {
  PERDURE_ASSERT(inside_ && fiber < fiber_.size() && !fiber_[fiber].ended);
  if (fiber != running_) go_to(fiber);
}

void Fibers::go_to(unsigned fiber) {
  Entry leave{this, running_};
  running_ = fiber;
  Entry::arrived(context::jump_fcontext(fiber_[fiber].context, &leave));
}

void Fibers::abandon() {
  Entry leave{this, running_};
  context::jump_fcontext(main_, &leave);
  std::abort();  // an abandoned fiber is never resumed
}

}  // namespace perdure::crash
