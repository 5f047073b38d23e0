#include "pool/epoch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "pool/test_pinned_reader.h"

namespace perdure {
namespace {

struct Freed {
  std::vector<std::uint64_t> objects;
  static void note(void* context, std::uint64_t object, std::size_t) {
    static_cast<Freed*>(context)->objects.push_back(object);
  }
};

// Retires enough for several attempts to advance the epoch.
void churn(Epochs& epochs, Freed& freed, std::uint64_t from, int count) {
  for (int i = 0; i < count; ++i) {
    const Epochs::Guard guard(epochs);
    epochs.retire(from + static_cast<std::uint64_t>(i), 8, Freed::note, &freed);
  }
}

TEST(Epochs, RetiredObjectsAreFreedInOrderWithoutDraining) {
  Freed freed;
  Epochs epochs;
  churn(epochs, freed, 0, 1000);
  ASSERT_GT(freed.objects.size(), 500U);
  for (std::size_t i = 0; i < freed.objects.size(); ++i) EXPECT_EQ(freed.objects[i], i);
  EXPECT_EQ(epochs.retired_bytes(), (1000 - freed.objects.size()) * 8);
  epochs.drain();
  EXPECT_EQ(freed.objects.size(), 1000U);
  EXPECT_EQ(epochs.retired_bytes(), 0U);
}

// E1 to E3: whatever is retired while a thread is pinned waits for it.
TEST(Epochs, NothingAPinnedThreadMayReadIsFreed) {
  Freed freed;
  Epochs epochs;
  {
    const PinnedReader reader(epochs);
    churn(epochs, freed, 0, 2000);
    EXPECT_TRUE(freed.objects.empty());
  }
  churn(epochs, freed, 2000, 1000);
  EXPECT_GE(freed.objects.size(), 2000U);
  epochs.drain();
}

TEST(Epochs, TheDestructorFreesTheRest) {
  Freed freed;
  {
    Epochs epochs;
    churn(epochs, freed, 0, 10);
    EXPECT_TRUE(freed.objects.empty());
  }
  EXPECT_EQ(freed.objects.size(), 10U);
}

TEST(Epochs, ALargeRetiredBlockDoesNotWaitForManySmallOnes) {
  Freed freed;
  Epochs epochs;
  for (int i = 0; i < 8; ++i) {
    const Epochs::Guard guard(epochs);
    epochs.retire(7, 2 << 20, Freed::note, &freed);
  }
  EXPECT_GE(freed.objects.size(), 3U);
}

TEST(Epochs, CollectingFreesWhatThreadsThatEndedHaveRetired) {
  Freed freed;
  Epochs epochs;
  EXPECT_TRUE(epochs.collect());
  for (int thread = 0; thread < 2; ++thread)
    std::thread([&] { churn(epochs, freed, 0, 5); }).join();
  churn(epochs, freed, 0, 5);
  EXPECT_TRUE(freed.objects.empty());
  EXPECT_TRUE(epochs.collect());
  EXPECT_EQ(freed.objects.size(), 15U);
  EXPECT_EQ(epochs.retired_bytes(), 0U);
}

TEST(Epochs, CollectingWaitsForWhoeverIsPinned) {
  Freed freed;
  Epochs epochs;
  {
    const PinnedReader reader(epochs);
    churn(epochs, freed, 0, 5);
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(epochs.collect());
    EXPECT_TRUE(freed.objects.empty());
    EXPECT_EQ(epochs.retired_bytes(), 40U);
    EXPECT_EQ(epochs.retired_dram_bytes(), 40U);
  }
  EXPECT_TRUE(epochs.collect());
  EXPECT_EQ(freed.objects.size(), 5U);
}

// Writers replace nodes that readers follow; a node freed too early fails its stamp, and
// ThreadSanitizer and AddressSanitizer see it too.
TEST(Epochs, WaitingEndsWithThoseThatArePinned) {
  Epochs epochs;
  epochs.wait_for_pinned();  // nobody
  std::atomic<bool> pinned{false};
  std::atomic<bool> lets_go{false};
  std::jthread reader([&] {
    const Epochs::Guard guard(epochs);
    pinned = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lets_go = true;
  });
  while (!pinned) std::this_thread::yield();
  epochs.wait_for_pinned();
  EXPECT_TRUE(lets_go);
}

TEST(Epochs, ReadersNeverMeetFreedMemory) {
  struct alignas(64) Node {
    std::uint64_t stamp;
    std::uint64_t complement;
  };
  constexpr int writes = 20'000;
  Epochs epochs;
  std::array<std::atomic<Node*>, 4> shared{};
  const auto fresh = [](std::uint64_t stamp) {
    auto* memory = static_cast<Node*>(::operator new[](sizeof(Node), std::align_val_t{64}));
    return new (memory) Node{stamp, ~stamp};
  };
  for (auto& word : shared) word = fresh(1);
  std::atomic<bool> stop{false};
  std::atomic<int> damaged{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        while (!stop.load(std::memory_order_relaxed)) {
          const Epochs::Guard guard(epochs);
          for (auto& word : shared) {
            const Node* node = word.load(std::memory_order_acquire);
            if (node->complement != ~node->stamp) damaged.fetch_add(1);
          }
        }
      });
    std::vector<std::jthread> writers;
    for (std::uint64_t t = 0; t < 2; ++t)
      writers.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < writes; ++i) {
          const Epochs::Guard guard(epochs);
          Node* old = shared[i % 4].exchange(fresh(i * 2 + t), std::memory_order_acq_rel);
          epochs.retire_dram(old, sizeof *old);
        }
      });
    writers.clear();
    stop = true;
  }
  EXPECT_EQ(damaged.load(), 0);
  for (auto& word : shared)
    ::operator delete[](static_cast<void*>(word.load()), std::align_val_t{64});
}

}  // namespace
}  // namespace perdure
