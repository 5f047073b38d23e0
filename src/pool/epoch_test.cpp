#include "pool/epoch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "pool/heap.h"
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

/// A heap without memory: counts what it is given back.
class CountingHeap final : public Heap {
 public:
  explicit CountingHeap(std::uint64_t capacity = std::uint64_t{1} << 30) : capacity_(capacity) {}
  Reservation reserve(std::size_t) noexcept override { return refuse(); }
  void publish(std::span<Reservation>, std::atomic<std::uint64_t>*,
               std::uint64_t) noexcept override {}
  void cancel(Reservation&) noexcept override {}
  void free(std::uint64_t, std::size_t bytes) noexcept override {
    freed_bytes_.fetch_add(bytes);
    frees_.fetch_add(1);
  }
  bool mark(std::uint64_t, std::size_t) noexcept override { return false; }
  bool is_marked(std::uint64_t) const noexcept override { return false; }
  Result<std::uint64_t> sweep() override { return std::uint64_t{0}; }
  HeapUsage usage() const noexcept override { return {}; }
  std::uint64_t capacity_bytes() const noexcept override { return capacity_; }
  const char* name() const noexcept override { return "counting"; }

  [[nodiscard]] std::uint64_t frees() const { return frees_; }

 private:
  const std::uint64_t capacity_;
  std::atomic<std::uint64_t> frees_{0};
  std::atomic<std::uint64_t> freed_bytes_{0};
};

void retire_blocks(Epochs& epochs, Heap& heap, int count, std::size_t bytes = 64) {
  for (int i = 0; i < count; ++i) {
    const Epochs::Guard guard(epochs);
    epochs.retire(heap, 4096, bytes);
  }
}

/// Until there is nothing more to be had.
void make_all_room(Epochs& epochs) {
  std::uint64_t frees = epochs.frees();
  while (epochs.make_room(frees)) {
  }
}

TEST(Epochs, RoomIsMadeOfWhatAllThreadsHaveRetired) {
  CountingHeap heap;
  Epochs epochs;
  for (int thread = 0; thread < 3; ++thread)
    std::thread([&] { retire_blocks(epochs, heap, 7); }).join();
  retire_blocks(epochs, heap, 5);
  EXPECT_EQ(heap.frees(), 0U);
  std::thread([&] { make_all_room(epochs); }).join();
  EXPECT_EQ(heap.frees(), 26U);
  EXPECT_EQ(epochs.retired_bytes(), 0U);
}

TEST(Epochs, NoRoomIsMadeWhereNothingIsRetired) {
  CountingHeap heap;
  Freed freed;
  Epochs epochs;
  std::uint64_t frees = epochs.frees();
  EXPECT_FALSE(epochs.make_room(frees));
  churn(epochs, freed, 0, 5);  // no blocks of a heap
  EXPECT_FALSE(epochs.make_room(frees));
}

// Whoever was refused while another thread freed blocks must try again.
TEST(Epochs, RoomThatOthersHaveMadeCounts) {
  CountingHeap heap;
  Epochs epochs;
  retire_blocks(epochs, heap, 5);
  std::uint64_t frees = epochs.frees();
  EXPECT_TRUE(epochs.collect());
  EXPECT_TRUE(epochs.make_room(frees));
  EXPECT_FALSE(epochs.make_room(frees));
}

// E3, E5: the refusal stands, after a while at first and at once then, until the reader goes.
TEST(Epochs, APinnedReaderKeepsWhatItMayRead) {
  using Clock = std::chrono::steady_clock;
  CountingHeap heap;
  Epochs epochs;
  {
    const PinnedReader reader(epochs);
    retire_blocks(epochs, heap, 5);
    std::uint64_t frees = epochs.frees();
    EXPECT_FALSE(epochs.make_room(frees));
    const auto begin = Clock::now();
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(epochs.make_room(frees));
    EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(500));
    EXPECT_EQ(heap.frees(), 0U);
  }
  make_all_room(epochs);
  EXPECT_EQ(heap.frees(), 5U);
}

// A thread that loses its core for a moment is no reason to refuse.
TEST(Epochs, RoomWaitsForAReaderThatGoes) {
  CountingHeap heap;
  Epochs epochs;
  std::atomic<bool> pinned{false};
  std::jthread reader([&] {
    const Epochs::Guard guard(epochs);
    pinned = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  });
  while (!pinned) std::this_thread::yield();
  retire_blocks(epochs, heap, 5);
  std::uint64_t frees = epochs.frees();
  EXPECT_TRUE(epochs.make_room(frees));
  EXPECT_GT(heap.frees(), 0U);
}

TEST(Epochs, WhatIsRetiredIsBoundedByTheHeapsSize) {
  CountingHeap heap(std::uint64_t{1} << 20);
  Epochs epochs;
  retire_blocks(epochs, heap, 1000, 4096);
  EXPECT_LT(epochs.retired_bytes(), heap.capacity_bytes() / 16);
  EXPECT_FALSE(epochs.is_pressed());
  {
    const PinnedReader reader(epochs);
    retire_blocks(epochs, heap, 40, 4096);
    EXPECT_TRUE(epochs.is_pressed());
  }
  epochs.relieve();
  EXPECT_FALSE(epochs.is_pressed());
  EXPECT_LT(epochs.retired_bytes(), heap.capacity_bytes() / 16);
}

// E4: lists are appended to, moved and freed from by several threads, which come and go.
TEST(Epochs, RoomIsMadeBesideThoseWhoRetire) {
  constexpr int rounds = 6;
  constexpr int each = 3000;
  CountingHeap heap;
  Epochs epochs;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        for (int round = 0; round < rounds; ++round)
          std::thread([&] { retire_blocks(epochs, heap, each); }).join();
      });
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        std::uint64_t frees = epochs.frees();
        for (int i = 0; i < 2000; ++i) (void)epochs.make_room(frees);
      });
  }
  make_all_room(epochs);
  EXPECT_EQ(heap.frees(), 3U * rounds * each);
  EXPECT_EQ(epochs.retired_bytes(), 0U);
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
