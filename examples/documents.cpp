// Stores documents in a pool, is killed, and finds them again, by their index, too.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "engine/document/engine.h"
#include "pm/pm.h"
#include "pool/pool.h"

using namespace perdure;

const std::string path = "/dev/shm/documents." + std::to_string(getpid());

std::string bson(const std::string& json) { return engine::from_json(json).value(); }

// In a child process: makes a collection with an index, inserts, and is killed.
Result<void> insert_and_be_killed() {
  auto pool = Pool::create({.path = path, .bytes = 64 << 20});
  if (!pool) return pool.error();
  auto store = engine::Engine::create(**pool);
  if (!store) return store.error();
  engine::Collection books = (*store)->collection("library.books");
  if (auto made = books.create_index({.field = "year"}); !made) return made.as_error();
  for (int i = 0; i < 1000; ++i) {
    const std::string book =
        "{\"_id\": " + std::to_string(i) + ", \"year\": " + std::to_string(1900 + i % 100) + "}";
    if (auto inserted = books.insert(bson(book)); !inserted) return inserted.as_error();
  }
  kill(getpid(), SIGKILL);  // nothing is closed, nothing is flushed from here on
  return {};
}

// In the parent, afterwards: opens the pool and asks for the books of a year.
Result<int> count_of_1984() {
  auto pool = Pool::open({.path = path});
  if (!pool) return pool.error();
  auto store = engine::Engine::open(**pool);
  if (!store) return store.error();
  auto found = (*store)->collection("library.books").find({.filter = bson("{\"year\": 1984}")});
  if (!found) return found.as_error();
  int books = 0;
  for (auto next = found->next(); next && *next; next = found->next(), ++books)
    if (books == 0) std::printf("%s\n", engine::to_json(**next).c_str());
  return books;
}

int main() {
  pm::configure(pm::Durability::adr);  // flush and fence, as a machine with PM needs it
  if (fork() == 0) {
    const auto failed = insert_and_be_killed();
    std::fprintf(stderr, "%s\n", failed.error().line().c_str());
    _exit(1);
  }
  wait(nullptr);
  const auto books = count_of_1984();
  unlink(path.c_str());
  if (!books) return std::fprintf(stderr, "%s\n", books.error().line().c_str()), 1;
  std::printf("%d books of 1984 after the crash\n", *books);
  return *books == 10 ? 0 : 1;
}
