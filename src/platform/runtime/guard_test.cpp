// The completeness guard: it sees every store that the hooks announce, and one that they do not.
#include "platform/runtime/guard.h"

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "platform/runtime/testing/in_process.h"

namespace perdure::platform {
namespace {

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

}  // namespace
}  // namespace perdure::platform
