// Every persistent queue under SIGKILL: a child pushes the numbers 1, 2, 3, ... from one thread and
// pops them in another; what it acknowledged must be so after the recovery.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "core/rng.h"
#include "lockfree/base/queue_registry.h"
#include "pm/pm.h"

namespace perdure {
namespace {

/// What the child says it has done, in memory that outlives it.
struct Acknowledged {
  std::atomic<std::uint64_t> pushed;
  std::atomic<std::uint64_t> popped;
};

class QueueKills : public testing::TestWithParam<const QueueInfo*> {
 protected:
  QueueKills()
      : path_("/dev/shm/perdure-queue-kill." + std::to_string(getpid())),
        said_(static_cast<Acknowledged*>(mmap(nullptr, sizeof(Acknowledged), PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    pm::configure(pm::Durability::adr);
  }
  ~QueueKills() override {
    munmap(said_, sizeof(Acknowledged));
    unlink(path_.c_str());
  }

  struct Open {
    std::unique_ptr<Pool> pool;
    std::unique_ptr<DurableQueue> queue;
  };
  [[nodiscard]] Result<Open> open(bool create) const {
    PoolOptions options;
    options.path = path_;
    options.bytes = Pool::min_pool_bytes;
    options.huge_pages = false;
    options.prefault = false;
    auto pool = create ? Pool::create(options) : Pool::open(options);
    if (!pool) return pool.error();
    QueuePlace place;
    place.pool = pool->get();
    place.options.set("slots", 64);
    place.options.set("payload_bytes", 300);
    auto queue = create ? create_queue(*GetParam(), place) : recover_queue(*GetParam(), place);
    if (!queue) return queue.error();
    return Open{std::move(pool).value(), std::move(queue).value()};
  }

  /// Some are inside the slot's header, some beyond.
  [[nodiscard]] static std::string payload_of(std::uint64_t number) {
    return std::to_string(number) + "." + std::string(number * 7 % 290, 'p');
  }

  [[noreturn]] void work() const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto opened = open(false);
    if (!opened) std::_Exit(1);
    DurableQueue& queue = *opened->queue;
    std::thread consumer([&] {
      std::string payload;
      for (;;)
        if (queue.pop(payload) == Outcome::ok) said_->popped.fetch_add(1);
    });
    for (;;) {
      const std::uint64_t next = said_->pushed.load() + 1;
      if (queue.push(payload_of(next), {0, next}) == Outcome::ok) said_->pushed.store(next);
    }
  }

  std::string path_;
  Acknowledged* said_;
};

TEST_P(QueueKills, WhatWasAcknowledgedIsSo) {
  ASSERT_TRUE(open(true));
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) work();
    const std::uint64_t before = said_->pushed.load();
    for (int waited = 0; said_->pushed.load() < before + 10 && waited < 20'000; ++waited)
      std::this_thread::sleep_for(std::chrono::microseconds(500));  // a busy machine starts it late
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(10'000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child could not recover the queue";
    auto opened = open(false);
    ASSERT_TRUE(opened) << opened.error().line();
    DurableQueue& queue = *opened->queue;
    ASSERT_TRUE(queue.check_invariants());
    const std::uint64_t pushed = said_->pushed.load();
    const std::uint64_t popped = said_->popped.load();
    const std::uint64_t told = queue.last_push(0);
    if (GetParam()->detectable) {
      ASSERT_TRUE(told == pushed || told == pushed + 1) << told;
    }
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::string payload;
    while (queue.pop(payload) == Outcome::ok) {
      const std::uint64_t number = std::stoull(payload);
      ASSERT_EQ(payload, payload_of(number));
      if (first == 0) first = number;
      ASSERT_TRUE(last == 0 || number == last + 1) << number << " after " << last;
      last = number;
    }
    if (first != 0) {
      ASSERT_TRUE(first == popped + 1 || first == popped + 2) << first << ", popped " << popped;
      ASSERT_TRUE(last == pushed || last == pushed + 1) << last << ", pushed " << pushed;
    } else {
      ASSERT_LE(pushed, popped + 1) << "payloads are lost";
    }
    const std::uint64_t now = std::max(last, std::max(pushed, std::max(told, popped)));
    said_->pushed.store(now);
    said_->popped.store(now);
  }
  EXPECT_GT(said_->pushed.load(), 100U);
}

std::vector<const QueueInfo*> persistent_queues() {
  std::vector<const QueueInfo*> list;
  for (const QueueInfo& info : QueueRegistry::all())
    if (info.recover != nullptr && info.works_on(HeapKind::slab)) list.push_back(&info);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Queues, QueueKills, testing::ValuesIn(persistent_queues()),
                         [](const auto& test) {
                           std::string name = test.param->full_name();
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

}  // namespace
}  // namespace perdure
