// Keeps documents in a pool, is killed, and finds them again by an index.
#include "engine/document/engine.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "pm/pm.h"

using namespace perdure;
using engine::from_json;

const std::string path = "/dev/shm/engine." + std::to_string(getpid());

// Writes return what went wrong, if anything.
template <class T>
void require(const engine::Answer<T>& answer) {
  if (answer) return;
  std::fprintf(stderr, "%s\n", answer.failure().message.c_str());
  _exit(1);
}

// In a child process: makes a pool with a collection in it, writes, and is killed.
Result<void> write_and_crash() {
  auto pool = Pool::create({.path = path, .bytes = 64 << 20});
  if (!pool) return pool.error();
  auto store = engine::Engine::create(**pool);
  if (!store) return store.error();
  engine::Collection people = (*store)->collection("example.people");
  require(people.create_index({.field = "born"}));
  for (const char* person : {R"({"_id": "ada", "name": "Ada Lovelace", "born": 1815})",
                             R"({"_id": "grace", "name": "Grace Hopper", "born": 1906})",
                             R"({"_id": "barbara", "name": "Barbara Liskov", "born": 1939})"})
    require(people.insert(from_json(person).value()));
  require(people.update(from_json(R"({"_id": "grace"})").value(),
                        from_json(R"({"$set": {"rank": "rear admiral"}})").value()));
  kill(getpid(), SIGKILL);  // nothing is closed, nothing is flushed from here on
  return {};
}

// In the parent, afterwards: opens the pool, and asks for those who were born after 1900.
Result<int> recover_and_find() {
  auto pool = Pool::open({.path = path});
  if (!pool) return pool.error();
  auto store = engine::Engine::open(**pool);
  if (!store) return store.error();
  auto cursor = (*store)
                    ->collection("example.people")
                    .find({.filter = from_json(R"({"born": {"$gt": 1900}})").value(),
                           .sort = from_json(R"({"born": 1})").value()});
  int found = 0;
  while (cursor) {
    const auto document = cursor->next();
    if (!document || !document->has_value()) break;
    std::printf("%s\n", engine::to_json(**document).c_str());
    ++found;
  }
  (*store)->settle();
  const Result<void> closed = (*pool)->close();
  return closed ? Result<int>(found) : Result<int>(closed.error());
}

int main() {
  pm::configure(pm::Durability::adr);  // flush and fence, as a machine with PM needs it
  if (fork() == 0) {
    const auto failed = write_and_crash();
    std::fprintf(stderr, "%s\n", failed.error().line().c_str());
    _exit(1);
  }
  wait(nullptr);
  const auto found = recover_and_find();
  unlink(path.c_str());
  if (!found) {
    std::fprintf(stderr, "%s\n", found.error().line().c_str());
    return 1;
  }
  return *found == 2 ? 0 : 1;
}
