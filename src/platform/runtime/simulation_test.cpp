// Compiled with the access hooks and linked with the runtime. Every test is a process of its own:
// a process simulates once.
#include "platform/runtime/simulation.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "pm/pm.h"

namespace perdure::platform {
namespace {

SimulationOptions options_for(unsigned threads, Carrier carrier = Carrier::fibers) {
  SimulationOptions options;
  options.threads = threads;
  options.carrier = carrier;
  return options;
}

Simulation& start(const SimulationOptions& options) {
  auto simulation = Simulation::start(options);
  EXPECT_TRUE(simulation.ok());
  pm::configure(pm::Durability::adr);
  return **simulation;
}

// Runs `body` in a child process; its value is the child's exit code.
template <class Body>
void in_process(Body body) {
  EXPECT_EXIT(
      {
        body();
        std::fflush(nullptr);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

struct alignas(64) Line {
  std::atomic<std::uint64_t> word{0};
};

TEST(Simulation, RunsEveryThreadOnceAndMovesTheClock) {
  in_process([] {
    Simulation& simulation = start(options_for(5));
    std::vector<unsigned> runs(5);
    std::vector<char> memory(1 << 20);
    simulation.run([&](unsigned thread) {
      ++runs[thread];
      for (std::size_t i = 0; i < memory.size(); i += 64) memory[i] = 1;
    });
    EXPECT_EQ(runs, std::vector<unsigned>(5, 1));
    EXPECT_GT(simulation.now(), 0U);
    EXPECT_GE(simulation.hooked_accesses(), 5U * (1 << 14));
    const Time first = simulation.now();
    simulation.run([](unsigned) {});
    EXPECT_GE(simulation.now(), first);
    EXPECT_TRUE(simulation.check().ok());
  });
}

TEST(Simulation, RefusesMoreThreadsThanThePlatformHas) {
  EXPECT_FALSE(Simulation::start(options_for(1000)).ok());
  EXPECT_FALSE(Simulation::start(options_for(0)).ok());
}

TEST(Simulation, RethrowsTheExceptionOfAJob) {
  in_process([] {
    Simulation& simulation = start(options_for(3));
    unsigned ended = 0;
    const auto job = [&](unsigned thread) {
      if (thread == 1) throw std::runtime_error("thread 1");
      ++ended;
    };
    EXPECT_THROW(simulation.run(job), std::runtime_error);
    EXPECT_EQ(ended, 2U);
  });
}

TEST(Simulation, KeepsWhatIsBeingCaughtApartPerThread) {
  in_process([] {
    Simulation& simulation = start(options_for(4));
    Line turn;
    simulation.run([&](unsigned thread) {
      try {
        throw static_cast<int>(thread);
      } catch (int caught) {
        turn.word.fetch_add(1);
        while (turn.word.load() < 4) pm::pause();  // all of them are inside a catch block now
        EXPECT_EQ(static_cast<unsigned>(caught), thread);
      }
    });
  });
}

// Nobody else would get on if a loop of cached loads could stop virtual time.
TEST(Simulation, ASpinningThreadCannotStopTime) {
  for (const auto model : {Simulation::Model::on, Simulation::Model::off}) {
    in_process([model] {
      Simulation& simulation = start(options_for(2));
      simulation.set_model(model);
      Line flag;
      simulation.run([&](unsigned thread) {
        if (thread == 0)
          while (flag.word.load(std::memory_order_relaxed) == 0) {
          }
        else
          flag.word.store(1, std::memory_order_relaxed);
      });
      EXPECT_EQ(flag.word.load(), 1U);
    });
  }
}

// The same where the loop has no atomic operation, and no clock moves.
TEST(Simulation, ALoopOfPlainLoadsLetsOthersRun) {
  for (const auto model :
       {Simulation::Model::on, Simulation::Model::tags_only, Simulation::Model::off}) {
    in_process([model] {
      Simulation& simulation = start(options_for(3));
      simulation.set_model(model);
      volatile std::uint64_t turn = 0;
      simulation.run([&](unsigned thread) {
        while (turn != 2 - thread) {
        }
        turn = turn + 1;
      });
      EXPECT_EQ(turn, 3U);
    });
  }
}

TEST(Simulation, AMutexHeldAcrossASwitchDoesNotBlockTheProcess) {
  for (const Carrier carrier : {Carrier::fibers, Carrier::threads}) {
    in_process([carrier] {
      Simulation& simulation = start(options_for(8, carrier));
      std::mutex mutex;
      std::uint64_t sum = 0;
      simulation.run([&](unsigned) {
        for (unsigned i = 0; i < 50; ++i) {
          const std::scoped_lock lock(mutex);
          const std::uint64_t before = sum;
          for (unsigned turn = 0; turn < 20; ++turn) pm::pause();
          sum = before + 1;
        }
      });
      EXPECT_EQ(sum, 400U);
    });
  }
}

TEST(Simulation, BothCarriersGiveTheSameClocksAndCounters) {
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  const auto measure = [&](Carrier carrier) {
    std::string result(256, '\0');
    const pid_t child = fork();
    if (child == 0) {
      Simulation& simulation = start(options_for(7, carrier));
      auto* const lines = new std::vector<Line>(512);
      simulation.run([lines](unsigned thread) {
        std::uint64_t at = thread;
        for (unsigned i = 0; i < 2000; ++i) {
          at = at * 6364136223846793005U + 1442695040888963407U;
          (*lines)[at >> 55].word.fetch_add(1);
        }
      });
      const Counters counters = simulation.counters();
      const std::string text = std::to_string(simulation.now()) + " " +
                               std::to_string(counters.l1_misses) + " " +
                               std::to_string(counters.llc_misses);
      std::_Exit(write(out[1], text.data(), text.size()) > 0 ? 0 : 1);
    }
    const ssize_t bytes = read(out[0], result.data(), result.size());
    result.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return result;
  };
  const std::string fibers = measure(Carrier::fibers);
  EXPECT_GT(fibers.size(), 8U);
  EXPECT_EQ(fibers, measure(Carrier::threads));
}

struct PerThread {
  static inline std::vector<unsigned> ended;
  unsigned number = 0, turns = 0;
  ~PerThread() { ended.push_back(number); }
};
thread_local PerThread own;

TEST(Simulation, WithTheThreadCarrierEachThreadHasThreadLocalStorage) {
  in_process([] {
    constexpr unsigned threads = 5;
    own.number = threads;
    Simulation& simulation = start(options_for(threads, Carrier::threads));
    for (unsigned run = 0; run < 2; ++run) {
      PerThread::ended.clear();
      simulation.run([](unsigned thread) {
        EXPECT_EQ(own.turns, 0U) << "of an earlier run";
        own.number = thread;
        errno = static_cast<int>(thread);
        for (unsigned i = 0; i < 100; ++i) {
          ++own.turns;
          pm::pause();
          EXPECT_EQ(own.number, thread);
          EXPECT_EQ(errno, static_cast<int>(thread));
          EXPECT_EQ(own.turns, i + 1);
        }
      });
      EXPECT_EQ(own.number, threads) << "the caller's changed";
      EXPECT_EQ(PerThread::ended, (std::vector<unsigned>{0, 1, 2, 3, 4}));
    }
  });
}

TEST(Simulation, EventsComeWhenNoClockIsBelowThem) {
  in_process([] {
    Simulation& simulation = start(options_for(2));
    std::vector<int> order;
    simulation.at(20 * us, [&] { order.push_back(2); });
    simulation.at(10 * us, [&] { order.push_back(1); });
    simulation.run([&](unsigned) {
      for (unsigned i = 0; i < 1000; ++i) pm::pause();
    });
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
  });
}

TEST(Transactions, UndoWhatAnAbortedOneWrote) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    ASSERT_TRUE(pm::transactions_on());
    Line line;
    simulation.run([&](unsigned) {
      std::uint64_t local = 7;
      std::uint64_t* const escaped = &local;
      const bool committed = pm::elide(2, [&] {
        line.word.store(1, std::memory_order_relaxed);
        *escaped = 8;
        pm::abort_transaction();
      });
      EXPECT_FALSE(committed);
      EXPECT_EQ(line.word.load(), 0U);
      EXPECT_EQ(local, 7U);
    });
    EXPECT_EQ(simulation.counters().aborts_explicit, 2U);
    EXPECT_GT(simulation.time_split().aborted_transactions, 0U);
  });
}

TEST(Transactions, ConflictsLeaveNoUpdateOut) {
  for (const Carrier carrier : {Carrier::fibers, Carrier::threads}) {
    in_process([carrier] {
      constexpr unsigned threads = 8;
      Simulation& simulation = start(options_for(threads, carrier));
      std::vector<Line> counters(4);
      pm::VersionLock fallback;
      simulation.run([&](unsigned thread) {
        for (unsigned i = 0; i < 300; ++i) {
          auto& word = counters[(thread + i) % counters.size()].word;
          const bool committed = pm::elide(8, [&] {
            if (pm::VersionLock::is_locked(fallback.peek())) pm::abort_transaction();
            word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
          });
          if (committed) continue;
          while (!fallback.lock()) {
          }
          word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
          fallback.unlock();
        }
      });
      std::uint64_t sum = 0;
      for (const Line& line : counters) sum += line.word.load();
      EXPECT_EQ(sum, threads * 300U);
      EXPECT_GT(simulation.counters().aborts_conflict, 0U);
      EXPECT_GT(simulation.counters().transaction_commits, 0U);
      EXPECT_TRUE(simulation.check().ok());
    });
  }
}

// Nine lines of one L1 set of eight ways cannot all be written.
TEST(Transactions, AbortWhenTheWrittenLinesOverflowL1) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    std::vector<Line> lines(64 * 10);
    simulation.run([&](unsigned) {
      const auto write = [&](unsigned count) {
        return pm::elide(1, [&] {
          for (unsigned i = 0; i < count; ++i)
            lines[i * 64].word.store(1, std::memory_order_relaxed);
        });
      };
      EXPECT_TRUE(write(7));
      EXPECT_FALSE(write(9));
    });
    EXPECT_EQ(simulation.counters().aborts_capacity, 1U);
  });
}

TEST(Transactions, AFlushInsideAborts) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    Line line;
    simulation.run(
        [&](unsigned) { EXPECT_FALSE(pm::elide(1, [&] { pm::flush(&line, sizeof line); })); });
    EXPECT_EQ(simulation.counters().aborts_flush, 1U);
  });
}

/// Sections that commit or abort as told, and what became of them.
class Sections {
 public:
  bool run(bool commits) {
    return elision_.run(attempts, [&] {
      line_.word.store(1, std::memory_order_relaxed);
      if (!commits) pm::abort_transaction();
    });
  }
  /// How many of `count` committed.
  unsigned run(bool commits, unsigned count) {
    unsigned committed = 0;
    for (unsigned i = 0; i < count; ++i) committed += run(commits);
    return committed;
  }
  static constexpr unsigned attempts = 16;

 private:
  pm::AdaptiveElision elision_;
  Line line_;
};

// 16 attempts, then 4 before 3, 7, ... sections left out, then 4 in 1024.
TEST(AdaptiveElision, HardlyTriesSectionsThatAlwaysAbort) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    Sections sections;
    simulation.run([&](unsigned) { EXPECT_EQ(sections.run(false, 100'000), 0U); });
    constexpr unsigned full_penalties = 1 + (100'000 - 2036) / 1024;
    EXPECT_LE(simulation.counters().aborts_explicit,
              Sections::attempts + pm::AdaptiveElision::attempts_in_doubt * (9 + full_penalties));
    EXPECT_GE(simulation.counters().aborts_explicit, Sections::attempts + 4 * 90U);
  });
}

TEST(AdaptiveElision, ComesBackToSectionsThatCommitAgain) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    Sections sections;
    simulation.run([&](unsigned) {
      (void)sections.run(false, 50'000);
      (void)sections.run(true, 2046);
      EXPECT_EQ(sections.run(true, 1000), 1000U);
    });
  });
}

TEST(AdaptiveElision, LeavesOneOutAfterAFailureAmongCommits) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    Sections sections;
    simulation.run([&](unsigned) {
      EXPECT_EQ(sections.run(true, 10), 10U);
      EXPECT_FALSE(sections.run(false));
      EXPECT_EQ(sections.run(true, 10), 9U);
      EXPECT_EQ(sections.run(true, 10), 10U);
    });
    EXPECT_EQ(simulation.counters().transaction_commits, 29U);
  });
}

TEST(AdaptiveElision, JudgesEachThreadAndEachObjectByItself) {
  in_process([] {
    Simulation& simulation = start(options_for(2));
    Sections one;
    Sections other;
    simulation.run([&](unsigned thread) {
      if (thread == 0) {
        EXPECT_EQ(one.run(false, 500), 0U);
        EXPECT_EQ(other.run(true, 100), 100U);
      } else {
        simulation.wait_until(100'000 * us);  // they would conflict
        EXPECT_EQ(one.run(true, 100), 100U);
        EXPECT_EQ(other.run(true, 100), 100U);
      }
    });
  });
}

__attribute__((no_sanitize("thread"), noinline)) void store_unseen(volatile std::uint64_t* word) {
  *word = 42;
}

/// Runs `body(thread, words)` with the guard on, `words` being 1 MiB of persistent memory; returns
/// what the guard found.
template <class Body>
Result<void> run_guarded(SimulationOptions options, Body body) {
  constexpr std::size_t bytes = 1 << 20;
  options.guard = true;
  Simulation& simulation = start(options);
  auto* const words = static_cast<std::uint64_t*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  simulation.add_pool(words, bytes, MemoryKind::pm);
  simulation.run([&](unsigned thread) { body(thread, words); });
  return simulation.check();
}

/// A child's EXPECT says nothing that its parent prints; its stderr does.
template <class Body>
void expect_nothing_unseen(const SimulationOptions& options, Body body) {
  const auto checked = run_guarded(options, body);
  EXPECT_TRUE(checked.ok());
  if (!checked) std::fprintf(stderr, "%s\n", checked.error().line().c_str());
}

TEST(Guard, AcceptsStoresCopiesAndStreams) {
  in_process([] {
    expect_nothing_unseen(options_for(2), [](unsigned thread, std::uint64_t* words) {
      std::uint64_t* const mine = words + 1000 * thread;
      mine[0] = 1;
      pm::persist(mine, 8);
      const std::vector<std::uint64_t> source(64, 3);
      std::memcpy(mine + 8, source.data(), 512);
      pm::stream(mine + 128, source.data(), 512);
      std::atomic_ref<std::uint64_t>(mine[300]).fetch_add(1);
      static_cast<void>(pm::elide(1, [&] {
        mine[400] = 4;
        pm::abort_transaction();
      }));
      pm::fence();
    });
  });
}

template <std::size_t words>
struct Words {
  std::array<std::uint64_t, words> word;
};

// In functions of their own, so that the compiler stores whole objects and not what it knows.
template <class T>
__attribute__((noinline)) void copy_to(T* to, const T& from) {
  *to = from;
}
template <class T>
__attribute__((noinline)) void clear(T* to) {
  *to = T{};
}
template <class T>
__attribute__((noinline)) void fill(T* to) {
  *to = T{1, 2};
}

template <class T>
void store_every_way(void* at) {
  T source{};
  std::memset(&source, 0x5a, sizeof source);
  copy_to(static_cast<T*>(at), source);
  pm::persist(at, sizeof(T));
  fill(static_cast<T*>(at));
  pm::persist(at, sizeof(T));
  clear(static_cast<T*>(at));
  pm::persist(at, sizeof(T));
}

using Vector16 = std::uint64_t __attribute__((vector_size(16)));

// Objects of 16 bytes and more are stored by vector instructions, aligned and not.
TEST(Guard, SeesStoresOfEveryWidth) {
  in_process([] {
    expect_nothing_unseen(options_for(2), [](unsigned thread, std::uint64_t* words) {
      for (const std::size_t shift : {0U, 1U, 7U}) {
        std::uint64_t* const at = words + 4096 * (thread + 1) + shift;
        store_every_way<Words<2>>(at);
        store_every_way<Words<3>>(at);
        store_every_way<Words<4>>(at);
        store_every_way<Words<8>>(at);
        store_every_way<Words<16>>(at);
        store_every_way<Words<40>>(at);
      }
      auto* const vector = reinterpret_cast<Vector16*>(words + 4096 * (thread + 1) + 64);
      copy_to(vector, Vector16{3, 4});
      pm::persist(vector, sizeof *vector);
    });
  });
}

// The load of a copied object comes between the hook of its store and the store.
TEST(Guard, AwaitsACopyWhoseLoadLetsAnotherThreadRun) {
  for (const Carrier carrier : {Carrier::fibers, Carrier::threads}) {
    in_process([carrier] {
      expect_nothing_unseen(options_for(3, carrier), [](unsigned thread, std::uint64_t* words) {
        using Object = Words<5>;
        constexpr std::size_t objects = 400;
        const auto object = [&](unsigned part, std::size_t i) {
          return reinterpret_cast<Object*>(words + 8 * (objects * part + i));
        };
        for (std::size_t i = 0; i < objects; ++i) object(thread, i)->word.fill(i + 1);
        const unsigned neighbour = (thread + 1) % 3;  // whose caches hold what it has filled
        for (std::size_t i = 0; i < objects; ++i) {
          copy_to(object(3 + thread, i), *object(neighbour, i));
          if (i % 3 == thread) pm::persist(object(3 + thread, i), sizeof(Object));
        }
      });
    });
  }
}

// One thread's fence compares a line in which another one's last store is still awaited.
TEST(Guard, HandsOverBetweenThreadsOfTheSystem) {
  in_process([] {
    expect_nothing_unseen(options_for(4, Carrier::threads),
                          [](unsigned thread, std::uint64_t* words) {
                            for (std::uint64_t i = 0; i < 200; ++i) {
                              words[thread] = i;
                              if (i % 3 == thread % 3) pm::pause();
                              pm::persist(words, 64);
                            }
                          });
  });
}

TEST(Guard, NoticesAStoreThatNoHookSaw) {
  for (const bool in_dirty_line : {true, false}) {
    in_process([in_dirty_line] {
      const auto checked = run_guarded(options_for(1), [&](unsigned, std::uint64_t* words) {
        words[0] = 1;
        store_unseen(words + (in_dirty_line ? 1 : 5000));
        pm::persist(words, 8);
      });
      ASSERT_FALSE(checked.ok());
      EXPECT_NE(checked.error().line().find(in_dirty_line ? "0x8," : "0x9c40,"), std::string::npos)
          << checked.error().line();
    });
  }
}

__attribute__((noinline)) std::uint64_t busy_leaf(const std::vector<Line>& lines) {
  std::uint64_t sum = 0;
  for (const Line& line : lines) sum += line.word.load(std::memory_order_relaxed);
  return sum;
}

TEST(Profile, NamesTheFunctionThatTakesTheTime) {
  in_process([] {
    SimulationOptions options = options_for(1);
    options.profile = true;
    Simulation& simulation = start(options);
    const std::vector<Line> lines(4096);
    simulation.run([&](unsigned) { EXPECT_EQ(busy_leaf(lines), 0U); });
    EXPECT_NE(simulation.folded_stacks().find("busy_leaf"), std::string::npos)
        << simulation.folded_stacks();
  });
}

TEST(Dependence, AChaseCannotOverlapItsLoads) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    constexpr std::size_t count = 1 << 16;
    struct alignas(64) Node {
      Node* next;
    };
    std::vector<Node> nodes(count);
    for (std::size_t i = 0; i < count; ++i) nodes[i].next = &nodes[(i * 40503 + 12345) % count];
    Time independent = 0;
    Time chased = 0;
    simulation.run([&](unsigned) {
      constexpr unsigned loads = 2000;
      const Time start = simulation.now();
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < loads; ++i)
        sum += reinterpret_cast<std::uint64_t>(nodes[(i * 30011) % count].next);
      independent = simulation.now() - start;
      const Time begin = simulation.now();
      const Node* at = &nodes[sum % 2];
      for (unsigned i = 0; i < loads; ++i) at = at->next;
      EXPECT_NE(at, nullptr);
      chased = simulation.now() - begin;
    });
    EXPECT_GT(chased, 2 * independent);
  });
}

// Each line holds, as an offset from the pool's base, where the next one lies that is read: in the
// pool that is a pointer; behind its end it says nothing but where the host has put memory.
TEST(Dependence, AnOffsetPointsIntoThePoolOnly) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    constexpr std::size_t count = 1 << 15;
    constexpr std::size_t step = 21001;  // no two neighbours in one window
    struct alignas(64) Node {
      std::uint64_t next;
    };
    auto* const nodes =
        static_cast<Node*>(mmap(nullptr, 2 * count * sizeof(Node), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    simulation.add_pool(nodes, count * sizeof(Node), MemoryKind::dram);
    for (std::size_t half : {std::size_t{0}, count})
      for (std::size_t i = 0; i < count; ++i)
        nodes[half + i].next = (half + (i + step) % count) * sizeof(Node);
    std::array<Time, 2> took{};
    std::uint64_t sum = 0;
    simulation.run([&](unsigned) {
      for (const std::size_t half : {0, 1}) {
        const Time begin = simulation.now();
        for (std::size_t i = 0; i < 2000; ++i) sum += nodes[half * count + i * step % count].next;
        took[half] = simulation.now() - begin;
      }
    });
    EXPECT_NE(sum, 0U);
    EXPECT_GT(took[0], 2 * took[1]);
  });
}

}  // namespace
}  // namespace perdure::platform
