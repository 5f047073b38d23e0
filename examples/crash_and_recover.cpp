// Opens a pool, inserts, crashes, and finds its data again.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "index/registry.h"
#include "pm/pm.h"

using namespace perdure;

const std::string path = "/dev/shm/crash_and_recover." + std::to_string(getpid());

// In a child process: makes a pool with a linetree in it, inserts, and is killed.
Result<void> insert_and_crash() {
  auto pool = Pool::create({.path = path, .bytes = 64 << 20});
  if (!pool) return pool.error();
  const IndexInfo* linetree = IndexRegistry::find("linetree").value();
  auto index = create_index<IntegerKeys>(*linetree, {.pool = pool->get()});
  if (!index) return index.error();
  for (std::uint64_t key = 1; key <= 1000; ++key) (*index)->insert(key, key * key);
  kill(getpid(), SIGKILL);  // nothing is closed, nothing is flushed from here on
  return {};
}

// In the parent, afterwards: opens the pool, recovers the index, looks a key up.
Result<std::uint64_t> recover_and_look_up(std::uint64_t key) {
  auto pool = Pool::open({.path = path});
  if (!pool) return pool.error();
  const IndexInfo* linetree = IndexRegistry::find("linetree").value();
  auto index = recover_index<IntegerKeys>(*linetree, {.pool = pool->get()});
  if (!index) return index.error();
  std::printf("%llu records after the crash\n", (unsigned long long)(*index)->size());
  std::uint64_t value = 0;
  if ((*index)->lookup(key, value) != Outcome::ok)
    return Error{ErrorCode::failed, "the key is gone", "", ""};
  return value;
}

int main() {
  pm::configure(pm::Durability::adr);  // flush and fence, as a machine with PM needs it
  if (fork() == 0) {
    const auto failed = insert_and_crash();
    std::fprintf(stderr, "%s\n", failed.error().line().c_str());
    _exit(1);
  }
  wait(nullptr);
  const auto value = recover_and_look_up(17);
  unlink(path.c_str());
  if (!value) return std::fprintf(stderr, "%s\n", value.error().line().c_str()), 1;
  std::printf("17 -> %llu\n", (unsigned long long)*value);
  return *value == 17 * 17 ? 0 : 1;
}
