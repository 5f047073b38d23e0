// A producer is killed while it pushes; after the recovery it asks which of its pushes took effect,
// and goes on with the next one. So each job is in the queue once, whenever the crash came.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "lockfree/base/queue_registry.h"
#include "pm/pm.h"

using namespace perdure;

const std::string path = "/dev/shm/resume_after_a_crash." + std::to_string(getpid());
constexpr std::uint32_t producer = 0;
constexpr std::uint64_t jobs = 200;

// From the job after the last one that took effect; `until`: the producer is killed there.
Result<void> push_jobs(DurableQueue& queue, std::uint64_t until) {
  for (std::uint64_t job = queue.last_push(producer) + 1; job <= jobs; ++job) {
    if (job == until)
      kill(getpid(), SIGKILL);  // nothing is closed, nothing is flushed from here on
    const Outcome pushed = queue.push("job " + std::to_string(job), {producer, job});
    if (pushed != Outcome::ok) return Error{ErrorCode::failed, name_of(pushed), "push", ""};
  }
  return {};
}

// In a child process: makes a pool with a ring buffer in it, pushes, and is killed half-way.
Result<void> push_and_crash(const QueueInfo& ring) {
  auto pool = Pool::create({.path = path, .bytes = 64 << 20});
  if (!pool) return pool.error();
  QueuePlace place{.pool = pool->get()};
  place.options.set("slots", 1024);
  place.options.set("payload_bytes", 64);
  auto queue = create_queue(ring, place);
  if (!queue) return queue.error();
  return push_jobs(**queue, jobs / 2);
}

// In the parent, afterwards: recovers the queue, pushes what is missing, and pops everything.
Result<std::uint64_t> resume(const QueueInfo& ring) {
  auto pool = Pool::open({.path = path});
  if (!pool) return pool.error();
  QueuePlace place{.pool = pool->get()};
  place.options.set("slots", 1024);
  place.options.set("payload_bytes", 64);
  auto queue = recover_queue(ring, place);
  if (!queue) return queue.error();
  std::printf("%llu jobs after the crash\n", (unsigned long long)(*queue)->size());
  if (auto pushed = push_jobs(**queue, 0); !pushed) return pushed.error();
  std::uint64_t popped = 0;
  std::string job;
  while ((*queue)->pop(job) == Outcome::ok)
    if (job != "job " + std::to_string(++popped))
      return Error{ErrorCode::failed, job + " came instead of " + std::to_string(popped), "", ""};
  return popped;
}

int main() {
  pm::configure(pm::Durability::adr);  // flush and fence, as a machine with PM needs it
  const QueueInfo* ring = QueueRegistry::find("ring:txfree").value();
  if (fork() == 0) {
    const auto failed = push_and_crash(*ring);
    std::fprintf(stderr, "%s\n", failed.error().line().c_str());
    _exit(1);
  }
  wait(nullptr);
  const auto popped = resume(*ring);
  unlink(path.c_str());
  if (!popped) return std::fprintf(stderr, "%s\n", popped.error().line().c_str()), 1;
  std::printf("%llu jobs, each once\n", (unsigned long long)*popped);
  return *popped == jobs ? 0 : 1;
}
