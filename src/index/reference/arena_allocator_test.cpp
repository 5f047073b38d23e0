#include "index/reference/arena_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>

namespace perdure {
namespace {

TEST(StripedArena, ReusesWhatIsFreed) {
  StripedArena arena(false);
  void* const first = arena.allocate(100);
  arena.free(first, 100);
  EXPECT_EQ(arena.allocate(100), first);
}

// Lengths that never repeat must not each keep a list of their own.
TEST(StripedArena, SharesClassesAmongLongBlocks) {
  StripedArena arena(false);
  void* const first = arena.allocate(40'000);
  arena.free(first, 40'000);
  EXPECT_EQ(arena.allocate(40'500), first);
}

TEST(StripedArena, GivesEveryLengthARoomThatFits) {
  std::size_t before = 0;
  for (std::size_t bytes = 1; bytes <= 300'000; ++bytes) {
    const std::size_t number = StripedArena::class_of(bytes);
    const std::size_t room = StripedArena::class_bytes(number);
    ASSERT_GE(room, bytes);
    ASSERT_EQ(StripedArena::class_of(room), number) << bytes;
    ASSERT_TRUE(number == before || number == before + 1) << bytes;
    ASSERT_LE(room, bytes + (bytes <= 64 ? 16 : std::max<std::size_t>(64, bytes / 4 + 1))) << bytes;
    before = number;
  }
}

TEST(StripedArena, AlignsAsTheSizeAsksFor) {
  StripedArena arena(false);
  for (std::size_t bytes = 1; bytes <= 5'000; ++bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(arena.allocate(bytes));
    ASSERT_EQ(at % (bytes % 256 == 0 ? 256 : bytes > 48 ? 64 : 16), 0U) << bytes;
  }
}

// A block's last user need not be its first.
TEST(StripedArena, TakesBackFromAnotherThread) {
  StripedArena arena(false);
  (void)pm::thread_slot();  // ours, so that the other thread's is another
  void* block = nullptr;
  std::thread([&] { block = arena.allocate(5000); }).join();
  arena.free(block, 5000);
  EXPECT_EQ(arena.allocate(5000), block);
}

TEST(StripedArena, ReportsWhatTheSystemGave) {
  StripedArena arena(false);
  const std::uint64_t before = arena.dram_bytes();
  for (int i = 0; i < 1000; ++i) (void)arena.allocate(10'000);
  EXPECT_GE(arena.dram_bytes() - before, 10'000'000U);
  EXPECT_LE(arena.dram_bytes() - before, 16'000'000U);
}

TEST(ArenaAllocator, ServesContainers) {
  StripedArena arena(true);
  using Allocator = ArenaAllocator<std::pair<const int, int>>;
  std::map<int, int, std::less<int>, Allocator> map{std::less<int>(), Allocator(arena)};
  for (int i = 0; i < 10'000; ++i) map.emplace(i, i);
  for (int i = 0; i < 10'000; i += 2) map.erase(i);
  EXPECT_EQ(map.size(), 5'000U);
  EXPECT_EQ(map.begin()->first, 1);
}

}  // namespace
}  // namespace perdure
