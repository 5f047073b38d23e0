#include "structure/stack/stack.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "structure/base/test_history.h"
#include "structure/stack/stack_on.h"

namespace perdure::structure {
namespace {

/// A stack in a pool of its own, which is deleted at the end.
class StackStore {
 public:
  explicit StackStore(const std::string& mode, bool offsets = false,
                      std::uint64_t bytes = Pool::min_pool_bytes) {
    options_.path = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") +
                    std::string("/perdure-stack-test-") + std::to_string(getpid()) + "-" +
                    std::to_string(index_test::next_serial()) + ".pool";
    options_.heap = mode == "dram"            ? HeapKind::dram
                    : mode == "pmem-volatile" ? HeapKind::memkind
                                              : HeapKind::pmdk;
    options_.bytes = bytes;
    options_.overwrite = true;
    place_.mode = mode;
    place_.offsets = offsets;
    auto pool = Pool::create(options_);
    if (!pool) throw std::runtime_error(pool.error().line());
    pool_ = std::move(pool).value();
    place_.pool = pool_.get();
    auto stack = create_stack(place_);
    if (!stack) throw std::runtime_error(stack.error().line());
    stack_ = std::move(stack).value();
  }
  ~StackStore() {
    close();
    std::remove(options_.path.c_str());
  }
  StackStore(const StackStore&) = delete;
  StackStore& operator=(const StackStore&) = delete;

  [[nodiscard]] Stack& stack() { return *stack_; }
  [[nodiscard]] Pool& pool() { return *pool_; }
  [[nodiscard]] StackPlace& place() { return place_; }
  [[nodiscard]] bool recovers() const { return options_.heap == HeapKind::pmdk; }

  void close() {
    stack_.reset();
    pool_.reset();
  }
  /// Opened again without a shutdown.
  [[nodiscard]] Result<void> crash() {
    close();
    auto pool = Pool::open(options_);
    if (!pool) return pool.error();
    pool_ = std::move(pool).value();
    place_.pool = pool_.get();
    auto stack = recover_stack(place_);
    if (!stack) return stack.error();
    stack_ = std::move(stack).value();
    return {};
  }

 private:
  PoolOptions options_;
  StackPlace place_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Stack> stack_;
};

using StackModel = std::vector<std::string>;

[[nodiscard]] StackModel contents(Stack& stack) {
  SlotScan found;
  stack.list(found);
  StackModel model;
  for (std::size_t i = found.size(); i-- > 0;) model.emplace_back(found[i].value);
  return model;
}

/// Takes all of it off.
void expect_stack(StackStore& store, StackModel model) {
  ASSERT_TRUE(succeeds(store.stack().check_invariants()));
  ASSERT_EQ(store.stack().size(), model.size());
  ASSERT_EQ(contents(store.stack()), model);
  std::string value;
  for (; !model.empty(); model.pop_back()) {
    ASSERT_EQ(store.stack().pop(value), Outcome::ok);
    ASSERT_EQ(value, model.back());
  }
  value = "untouched";
  ASSERT_EQ(store.stack().pop(value), Outcome::not_found);
  ASSERT_EQ(store.stack().top(value), Outcome::not_found);
  ASSERT_EQ(value, "untouched");
  ASSERT_TRUE(succeeds(store.stack().check_invariants()));
}

TEST(Stack, agrees_with_a_model_in_all_modes) {
  for (const std::string& mode : all_modes)
    for (const bool offsets : {false, true}) {
      SCOPED_TRACE(mode);
      StackStore store(mode, offsets);
      StackModel model;
      Rng rng(23);
      std::string value;
      for (unsigned i = 0; i < 3000; ++i) {
        const bool grows = i / 500 % 2 == 0;
        if (rng.below(10) < (grows ? 7U : 3U)) {
          ASSERT_EQ(store.stack().push(value_of(i)), Outcome::ok);
          model.push_back(value_of(i));
        } else {
          ASSERT_EQ(store.stack().pop(value), model.empty() ? Outcome::not_found : Outcome::ok);
          if (!model.empty()) {
            ASSERT_EQ(value, model.back());
            model.pop_back();
          }
        }
        ASSERT_EQ(store.stack().size(), model.size());
        if (!model.empty()) {
          ASSERT_EQ(store.stack().top(value), Outcome::ok);
          ASSERT_EQ(value, model.back());
        }
        if (i % 400 == 399 && store.recovers()) {
          ASSERT_TRUE(succeeds(store.crash()));
          ASSERT_TRUE(succeeds(store.stack().check_invariants()));
        }
      }
      ASSERT_NO_FATAL_FAILURE(expect_stack(store, model));
    }
}

TEST(Stack, is_the_same_on_media_in_both_persistent_modes) {
  for (const auto& [first, second] :
       {std::pair{"pmem-persist", "pmem-trans"}, std::pair{"pmem-trans", "pmem-persist"}}) {
    StackStore store(first);
    ASSERT_EQ(store.stack().push("below"), Outcome::ok);
    ASSERT_EQ(store.stack().push("above"), Outcome::ok);
    store.place().mode = second;
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_stack(store, {"below", "above"}));
  }
}

TEST(Stack, is_full_when_the_pool_is_and_loses_nothing) {
  for (const std::string& mode : all_modes) {
    if (mode == "dram") continue;
    SCOPED_TRACE(mode);
    StackStore store(mode);
    StackModel model;
    for (std::uint64_t i = 0;; ++i) {
      const Outcome outcome = store.stack().push(value_of(i));
      if (outcome == Outcome::out_of_space) break;
      ASSERT_EQ(outcome, Outcome::ok);
      model.push_back(value_of(i));
    }
    ASSERT_GT(model.size(), 1000U);
    if (store.recovers()) {
      ASSERT_TRUE(succeeds(store.crash()));
    }
    for (unsigned round = 0; round < 3; ++round) {  // a full pool has room for a pop, then a push
      std::string value;
      ASSERT_EQ(store.stack().pop(value), Outcome::ok);
      ASSERT_EQ(value, model.back());
      ASSERT_EQ(store.stack().push(value), Outcome::ok);
    }
    ASSERT_NO_FATAL_FAILURE(expect_stack(store, model));
    EXPECT_EQ(store.stack().push("again"), Outcome::ok);
  }
}

TEST(Stack, takes_what_fits_a_slot) {
  StackStore store("pmem-trans");
  EXPECT_EQ(store.stack().push(std::string(max_slot_value_bytes + 1, 'x')), Outcome::invalid);
  EXPECT_EQ(store.stack().push(std::string(max_slot_value_bytes, 'x')), Outcome::ok);
  EXPECT_EQ(store.stack().push(""), Outcome::ok);
  ASSERT_NO_FATAL_FAILURE(expect_stack(store, {std::string(max_slot_value_bytes, 'x'), ""}));
}

TEST(Stack, says_where_it_cannot_be) {
  StackStore store("pmem-trans");
  const auto refused = [&](const char* mode, bool recovers) {
    StackPlace place = store.place();
    place.mode = mode;
    const auto stack = recovers ? recover_stack(place) : create_stack(place);
    return !stack.ok() && stack.error().code == ErrorCode::usage;
  };
  EXPECT_TRUE(refused("pmem", false));
  EXPECT_TRUE(refused("pmem-volatile", false));  // a pool with another heap
  EXPECT_TRUE(refused("dram", true));
}

// T1: a damaged link, and a value that no slot can hold.
TEST(Stack, refuses_a_damaged_pool) {
  using Damaged = StackOn<PmemPersistMemory<Offsets>>;
  for (const bool length : {false, true}) {
    StackStore store("pmem-persist", true);
    for (unsigned i = 0; i < 5; ++i) ASSERT_EQ(store.stack().push("value"), Outcome::ok);
    IndexRoot root{};
    std::memcpy(&root, store.pool().at<void>(store.pool().roots().front().offset), sizeof root);
    auto& first =
        *store.pool().at<Damaged::Element>(store.pool().at<Damaged::Top>(root.head)->first.offset);
    if (length)
      first.slot.bytes = max_slot_value_bytes + 1;
    else
      store.pool().at<Damaged::Element>(first.next.offset)->next.offset = first.next.offset;
    const Result<void> recovered = store.crash();
    ASSERT_FALSE(recovered.ok());
    EXPECT_EQ(recovered.error().code, ErrorCode::corrupt);
  }
}

// Every value that some thread pushed is popped once.
TEST(Stack, gives_each_value_to_one_thread) {
  constexpr unsigned threads = 3;
  constexpr unsigned each = 1500;
  for (const std::string& mode : all_modes) {
    StackStore store(mode);
    std::vector<std::vector<std::string>> popped(threads);
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        std::string value;
        for (unsigned i = 0; i < each; ++i) {
          EXPECT_EQ(store.stack().push(std::to_string(t * each + i)), Outcome::ok);
          if (i % 3 != 0 && store.stack().pop(value) == Outcome::ok) popped[t].push_back(value);
        }
      });
    for (std::thread& worker : workers) worker.join();
    std::multiset<std::string> all;
    for (const auto& some : popped) all.insert(some.begin(), some.end());
    std::string value;
    while (store.stack().pop(value) == Outcome::ok) all.insert(value);
    ASSERT_EQ(all.size(), threads * each) << mode;
    for (unsigned i = 0; i < threads * each; ++i)
      ASSERT_EQ(all.count(std::to_string(i)), 1U) << mode;
  }
}

/// Operation `number` of a history: it pushes, or pops, as its number says.
template <class Push, class Pop>
void do_operation(std::uint64_t number, Push&& push, Pop&& pop) {
  const std::uint64_t draw = mix64(number);
  if (draw % 100 < (number / 200 % 2 == 0 ? 65U : 40U))
    push(value_of(draw >> 8));
  else
    pop();
}
void follow(StackModel& model, std::uint64_t number) {
  do_operation(
      number, [&](const std::string& value) { model.push_back(value); },
      [&] {
        if (!model.empty()) model.pop_back();
      });
}

/// Goes on with the history until it is killed; `done` counts the operations that have returned.
[[noreturn]] void work(StackStore& store, std::atomic<std::uint64_t>& done) {
  if (!store.crash().ok()) _exit(1);
  std::string popped;
  for (;; done.fetch_add(1))
    do_operation(
        done.load(), [&](const std::string& value) { store.stack().push(value); },
        [&] { store.stack().pop(popped); });
}

/// Kills the child when `wanted` operations are done. False: it ended before.
[[nodiscard]] bool kill_at(pid_t child, const std::atomic<std::uint64_t>& done,
                           std::uint64_t wanted) {
  while (done.load() < wanted) {
    if (waitpid(child, nullptr, WNOHANG) != 0) return false;
    std::this_thread::yield();
  }
  kill(child, SIGKILL);
  return waitpid(child, nullptr, 0) == child;
}

// What had returned when its process was killed is there; of the operation under way all or
// nothing.
TEST(Stack, survives_its_process) {
  for (const char* mode : {"pmem-persist", "pmem-trans"}) {
    StackStore store(mode);
    void* const shared =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    auto& done = *new (shared) std::atomic<std::uint64_t>(0);
    StackModel model;
    std::uint64_t followed = 0;
    Rng rng(29);
    for (unsigned round = 0; round < 12; ++round) {
      store.close();
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) work(store, done);
      ASSERT_TRUE(kill_at(child, done, done.load() + 50 + rng.below(400)));
      ASSERT_TRUE(succeeds(store.crash()));
      ASSERT_TRUE(succeeds(store.stack().check_invariants()));
      while (followed < done.load()) follow(model, followed++);
      StackModel with_next = model;
      follow(with_next, followed);
      const StackModel found = contents(store.stack());
      ASSERT_TRUE(found == model || found == with_next) << mode << ", seed 29, round " << round;
      if (found != model) {
        model = with_next;
        done.store(++followed);
      }
    }
    munmap(shared, 4096);
  }
}

}  // namespace
}  // namespace perdure::structure
