// Compiled with the access hooks and linked with the runtime. Every test is a process of its own:
// a process simulates once.
#include "platform/runtime/simulation.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "platform/runtime/symbols.h"
#include "platform/runtime/testing/in_process.h"
#include "pm/pm.h"

namespace perdure::platform {
namespace {

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

TEST(Simulation, CountsWhatIsStoredIntoThePartsOfAPoolBySizeOfStore) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    constexpr std::size_t bytes = 1 << 16;
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    pm::note_persistent(memory, bytes, false, {.number = 1});
    auto* const words = static_cast<std::uint64_t*>(memory);
    const std::vector<std::uint64_t> source(1024, 7);
    const Counters before = simulation.counters();
    simulation.run([&](unsigned) {
      words[0] = 1;
      words[1] = 2;
      std::memcpy(words + 8, source.data(), source.size() / 2 * sizeof(std::uint64_t));
      pm::stream(words + 1024, source.data(), 192);
      std::vector<std::uint64_t> elsewhere(source);
    });
    const Counters counters = simulation.counters().since(before);
    pm::note_not_persistent(memory);
    std::array<std::uint64_t, store_classes> expected{};
    expected[0] = 16;    // two words
    expected[2] = 192;   // from 128 B
    expected[7] = 4096;  // from 4 KiB
    EXPECT_EQ(counters.stored[1], expected);
    EXPECT_EQ(counters.stored[0], (std::array<std::uint64_t, store_classes>{}));
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

TEST(Simulation, AsManyThreadsAsARunMayHaveHaveSlotsOfTheirOwn) {
  in_process([] {
    constexpr unsigned threads = pm::max_workers;
    SimulationOptions options = options_for(threads);
    options.platform.cpu.sockets = 2;
    options.platform.cpu.cores_per_socket = 64;
    options.platform.cpu.threads_per_core = 2;
    Simulation& simulation = start(options);
    std::array<std::size_t, threads> slots{};
    const std::size_t host = pm::thread_slot();
    simulation.run([&](unsigned thread) { slots[thread] = pm::thread_slot(); });
    std::set<std::size_t> distinct(slots.begin(), slots.end());
    EXPECT_EQ(distinct.size(), threads);
    EXPECT_LT(*distinct.rbegin(), pm::max_threads);
    EXPECT_FALSE(distinct.contains(host));
  });
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

// The model off and nobody else to run, hooks are passed over, but not inside a transaction.
TEST(Transactions, UndoWhatOneWroteWithTheModelOff) {
  in_process([] {
    Simulation& simulation = start(options_for(1));
    simulation.set_model(Simulation::Model::off);
    Line line;
    simulation.run([&](unsigned) {
      for (std::uint64_t i = 1; i < 4; ++i) {
        EXPECT_FALSE(pm::elide(2, [&] {
          line.word.store(i, std::memory_order_relaxed);
          pm::abort_transaction();
        }));
        EXPECT_EQ(line.word.load(), 0U);
      }
    });
    simulation.set_model(Simulation::Model::on);
    simulation.run([&](unsigned) { line.word.store(1); });
    EXPECT_GT(simulation.hooked_accesses(), 0U);
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
    EXPECT_LE(
        simulation.counters().aborts_explicit,
        Sections::attempts + pm::AdaptiveElision::attempts_after_a_failure * (9 + full_penalties));
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
    simulation.run([&](unsigned) {
      EXPECT_EQ(busy_leaf(lines), 0U);
      pm::flush(lines.data(), sizeof(Line));
      pm::fence();
    });
    for (const char* name : {"busy_leaf", "instruction::clwb ", "instruction::store_fence "})
      EXPECT_NE(simulation.folded_stacks().find(name), std::string::npos)
          << name << " is not in\n"
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

TEST(Symbols, NamesLoseTheirArguments) {
  const std::pair<const char*, const char*> cases[] = {
      {"change", "change"},
      {"ns::Tree<int>::find(int) const", "ns::Tree<int>::find"},
      {"a::(anonymous namespace)::Table::change(unsigned long, unsigned long)",
       "a::(anonymous namespace)::Table::change"},
      {"a::(anonymous namespace)::leaf", "a::(anonymous namespace)::leaf"},
      {"a::Less::operator()(int, int) const", "a::Less::operator()"},
  };
  for (const auto& [whole, name] : cases)
    EXPECT_EQ(platform::runtime::without_arguments(whole), name);
}

}  // namespace
}  // namespace perdure::platform
