// The heaps behind the common interface: every test runs on each of them.
#include "pool/heap.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/slab_heap.h"
#include "pool/test_support.h"

namespace perdure {
namespace {

class HeapTest : public testing::TestWithParam<HeapKind> {
 protected:
  std::unique_ptr<Pool> create(std::uint64_t bytes = Pool::min_pool_bytes) {
    pm::configure(pm::Durability::adr);
    PoolOptions options = small_pool(folder_.file(), GetParam());
    options.bytes = bytes;
    return must(Pool::create(options));
  }
  Result<std::unique_ptr<Pool>> reopen() { return Pool::open(small_pool(folder_.file())); }

  TestFolder folder_;
};

class PersistentHeapTest : public HeapTest {};

INSTANTIATE_TEST_SUITE_P(Heaps, HeapTest,
                         testing::Values(HeapKind::pmdk, HeapKind::slab, HeapKind::dram),
                         heap_name);
INSTANTIATE_TEST_SUITE_P(Heaps, PersistentHeapTest, testing::Values(HeapKind::pmdk, HeapKind::slab),
                         heap_name);

/// The root block of these tests: words that link to blocks.
struct Links {
  static constexpr std::size_t count = 512;
  std::atomic<std::uint64_t> word[count];
};

Links* add_links(Pool& pool) {
  Reservation block = pool.heap().reserve(sizeof(Links));
  auto* links = pool.at<Links>(block.offset);
  std::memset(static_cast<void*>(links), 0, sizeof *links);
  pm::persist(links, sizeof *links);
  EXPECT_TRUE(pool.add_root("links", block).ok());
  return links;
}

TEST(BlockSize, ClassesAreMonotoneAndWasteAtMostOneNinthFromALineOn) {
  std::size_t previous = 0;
  for (std::size_t bytes = 1; bytes <= Heap::max_block_bytes; bytes += bytes < 70000 ? 1 : 37) {
    const std::size_t taken = Heap::block_bytes(bytes);
    ASSERT_GE(taken, bytes);
    ASSERT_GE(taken, previous);
    if (bytes > 1024) {
      ASSERT_LE((taken - bytes) * 9, taken) << bytes;
    }
    ASSERT_LT(taken - bytes, std::max<std::size_t>(64, taken / 8)) << bytes;
    previous = taken;
  }
  for (unsigned c = 0; c < size_classes::count; ++c)
    ASSERT_EQ(size_classes::class_of(size_classes::bytes_of(c)), c);
}

TEST(BlockSize, NodesOfThePublishedTreesAreExact) {
  EXPECT_EQ(Heap::block_bytes(256), 256U);
  EXPECT_EQ(Heap::block_alignment(256), 256U);
  EXPECT_EQ(Heap::block_bytes(1152), 1152U);
  EXPECT_EQ(Heap::block_alignment(1152), 128U);
}

TEST_P(HeapTest, BlocksOfEverySizeAreAlignedDisjointAndInsideThePool) {
  const auto pool = create(128 << 20);
  std::map<std::uint64_t, std::size_t> blocks;
  for (unsigned c = 0; c < size_classes::count; ++c) {
    const std::size_t bytes = size_classes::bytes_of(c) - (c % 3);
    for (int i = 0; i < 3; ++i) {
      Reservation block = pool->heap().reserve(bytes);
      ASSERT_TRUE(block) << bytes;
      ASSERT_EQ(block.bytes, bytes);
      ASSERT_TRUE(pool->contains(block.offset, bytes));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pool->at<std::byte>(block.offset)) %
                    Heap::block_alignment(bytes),
                0U)
          << bytes;
      std::memset(pool->at<std::byte>(block.offset), 0x5a, bytes);
      pool->heap().publish({&block, 1}, nullptr, 0);
      blocks[block.offset] = bytes;
    }
  }
  std::uint64_t end = 0;
  for (const auto& [offset, bytes] : blocks) {
    ASSERT_GE(offset, end);
    end = offset + bytes;
  }
  EXPECT_EQ(pool->heap().usage().live_blocks, blocks.size());
}

TEST_P(HeapTest, PublishSetsTheWordAndCancelGivesTheBlockBack) {
  const auto pool = create();
  Links* links = add_links(*pool);
  const HeapUsage before = pool->heap().usage();
  Reservation kept[2] = {pool->heap().reserve(256), pool->heap().reserve(100)};
  Reservation given_back = pool->heap().reserve(256);
  pool->heap().publish(kept, &links->word[0], kept[0].offset);
  pool->heap().cancel(given_back);
  EXPECT_FALSE(given_back);
  EXPECT_EQ(links->word[0].load(), kept[0].offset);
  const HeapUsage after = pool->heap().usage();
  EXPECT_EQ(after.live_blocks, before.live_blocks + 2);
  EXPECT_EQ(after.live_bytes, before.live_bytes + 256 + 128);
  pool->heap().free(kept[0].offset, 256);
  pool->heap().free(kept[1].offset, 100);
  EXPECT_EQ(pool->heap().usage().live_bytes, before.live_bytes);
}

TEST_P(PersistentHeapTest, ManyBlocksArePublishedInOneCall) {
  std::vector<Reservation> blocks(100);
  {
    const auto pool = create();
    Links* links = add_links(*pool);
    for (Reservation& block : blocks) block = pool->heap().reserve(64);
    pool->heap().publish(blocks, &links->word[7], 42);
    EXPECT_EQ(links->word[7].load(), 42U);
    EXPECT_EQ(pool->heap().usage().live_blocks, 101U);
  }
  const auto pool = must(reopen());
  EXPECT_EQ(pool->at<Links>(pool->roots()[0].offset)->word[7].load(), 42U);
  for (const Reservation& block : blocks) ASSERT_TRUE(pool->heap().mark(block.offset, 64));
  EXPECT_TRUE(pool->root_recovered("links").ok());
  EXPECT_EQ(pool->leaked_blocks_freed(), 0U);
}

TEST_P(PersistentHeapTest, VolatileBlocksAreCountedApartAndGoneAfterAReopening) {
  std::uint64_t live = 0;
  {
    const auto pool = create();
    add_links(*pool);
    Heap& heap = pool->heap();
    live = heap.usage().live_blocks;
    Reservation first = heap.reserve_volatile(1000);
    Reservation second = heap.reserve_volatile(64 << 10);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(heap.usage().live_blocks, live + 2);
    EXPECT_EQ(heap.volatile_usage().live_blocks, 2U);
    EXPECT_EQ(heap.volatile_usage().live_bytes,
              Heap::block_bytes(1000) + Heap::block_bytes(64 << 10));
    EXPECT_TRUE(heap.is_volatile(first.offset) && heap.is_volatile(second.offset));
    heap.cancel_volatile(first);
    EXPECT_EQ(heap.volatile_usage().live_blocks, 1U);
    EXPECT_FALSE(heap.is_volatile(first.offset));
    heap.cancel_volatile(second);
    EXPECT_EQ(heap.usage().live_blocks, live);
  }
  const auto pool = must(reopen());
  EXPECT_TRUE(pool->root_recovered("links").ok());
  EXPECT_EQ(pool->heap().usage().live_blocks, live);
  EXPECT_EQ(pool->leaked_blocks_freed(), 0U);
}

TEST_P(HeapTest, AFullHeapSaysSoAndGoesOnOnceBlocksAreFreed) {
  const auto pool = create();
  for (const std::size_t bytes : {std::size_t{1152}, std::size_t{256}, std::size_t{40000}}) {
    std::vector<std::uint64_t> blocks;
    const auto fill = [&] {
      for (;;) {
        Reservation block = pool->heap().reserve(bytes);
        if (!block) return;
        pool->heap().publish({&block, 1}, nullptr, 0);
        blocks.push_back(block.offset);
      }
    };
    fill();
    const std::size_t fitted = blocks.size();
    // libpmemobj keeps 3 MiB for its lanes, and runs of 256 KiB per thread and size.
    const std::uint64_t percent = GetParam() == HeapKind::pmdk ? 50 : 90;
    EXPECT_GE(fitted * bytes, Pool::min_pool_bytes / 100 * percent) << bytes;
    EXPECT_FALSE(pool->heap().reserve(bytes));
    for (std::size_t i = 0; i < fitted / 2; ++i) {
      pool->heap().free(blocks.back(), bytes);
      blocks.pop_back();
    }
    std::thread(fill).join();  // another thread can have what this one freed
    EXPECT_GE(blocks.size(), GetParam() == HeapKind::pmdk ? fitted - fitted / 50 : fitted) << bytes;
    for (const std::uint64_t block : blocks) pool->heap().free(block, bytes);
    EXPECT_EQ(pool->heap().usage().live_blocks, 0U);
  }
}

// Every block is stamped from end to end by its owner; a block handed out twice, or one that
// overlaps another, is found when its stamp is read again.
TEST_P(HeapTest, CountsItsRefusals) {
  const auto pool = create();
  Heap& heap = pool->heap();
  EXPECT_EQ(heap.refusals(), 0U);
  EXPECT_LE(heap.usage().free_bytes(), heap.usage().capacity_bytes);
  std::vector<Reservation> held;
  for (;;) {
    const Reservation block = heap.reserve(4096);
    if (!block) break;
    EXPECT_EQ(heap.refusals(), 0U);
    held.push_back(block);
  }
  EXPECT_EQ(heap.refusals(), 1U);
  EXPECT_EQ(heap.usage().free_bytes(), heap.usage().capacity_bytes - heap.usage().live_bytes);
  EXPECT_LT(heap.usage().free_bytes(), heap.usage().capacity_bytes / 5);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(heap.reserve(4096));
  EXPECT_EQ(heap.refusals(), 4U);
  for (Reservation& block : held) heap.cancel(block);
  EXPECT_TRUE(heap.reserve(4096));
  EXPECT_EQ(heap.refusals(), 4U);
}

TEST_P(HeapTest, ConcurrentBlocksNeverOverlap) {
  const auto pool = create(64 << 20);
  constexpr unsigned threads = 4;
  const int operations = GetParam() == HeapKind::pmdk ? 8000 : 25000;
  std::atomic<int> damaged{0};
  const auto work = [&](unsigned thread) {
    Rng rng(7, thread);
    struct Owned {
      std::uint64_t offset;
      std::size_t bytes;
      std::uint64_t stamp;
    };
    std::vector<Owned> owned;
    const auto check_and_free = [&](std::size_t i) {
      const auto* words = pool->at<std::uint64_t>(owned[i].offset);
      for (std::size_t w = 0; w < owned[i].bytes / 8; ++w)
        if (words[w] != owned[i].stamp) damaged.fetch_add(1);
      pool->heap().free(owned[i].offset, owned[i].bytes);
      owned[i] = owned.back();
      owned.pop_back();
    };
    for (int i = 0; i < operations; ++i) {
      constexpr std::size_t sizes[] = {16, 48, 64, 256, 256, 1152, 4096, 70000};
      const std::size_t bytes = sizes[rng.below(std::size(sizes))];
      if (!owned.empty() && (owned.size() > 200 || rng.below(2) == 0))
        check_and_free(rng.below(owned.size()));
      Reservation block = pool->heap().reserve(bytes);
      if (!block) continue;
      if (rng.below(16) == 0) {
        pool->heap().cancel(block);
        continue;
      }
      const std::uint64_t stamp = rng();
      std::fill_n(pool->at<std::uint64_t>(block.offset), bytes / 8, stamp);
      pool->heap().publish({&block, 1}, nullptr, 0);
      owned.push_back({block.offset, bytes, stamp});
    }
    while (!owned.empty()) check_and_free(owned.size() - 1);
  };
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < threads; ++t) workers.emplace_back(work, t);
  workers.clear();
  EXPECT_EQ(damaged.load(), 0);
  EXPECT_EQ(pool->heap().usage().live_blocks, 0U);
  EXPECT_EQ(pool->heap().usage().live_bytes, 0U);
}

TEST_P(HeapTest, ReservedBytesAreTheTrueUse) {
  constexpr std::uint64_t blocks = 200'000;
  const auto pool = create(96 << 20);
  const std::uint64_t empty = pool->heap().usage().reserved_bytes;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    Reservation block = pool->heap().reserve(256);
    ASSERT_TRUE(block);
    pool->heap().publish({&block, 1}, nullptr, 0);
  }
  const HeapUsage usage = pool->heap().usage();
  EXPECT_EQ(usage.live_bytes, blocks * 256);
  const std::uint64_t taken = usage.reserved_bytes - empty;
  EXPECT_GE(taken, blocks * 256);
  const std::uint64_t percent = GetParam() == HeapKind::pmdk ? 103 : 101;
  EXPECT_LE(taken, blocks * 256 / 100 * percent);
  EXPECT_LE(usage.reserved_bytes, pool->bytes());
  EXPECT_LE(usage.live_bytes, usage.capacity_bytes);
}

// A child reserves, publishes and links, then dies between reserve and publish.
TEST_P(PersistentHeapTest, AKilledProcessLeaksNothing) {
  constexpr std::size_t linked = 300;
  constexpr std::size_t unlinked = 50;
  std::uint64_t fitting = 0;
  {
    const auto pool = create();
    add_links(*pool);
    std::vector<Reservation> all;
    for (;;) {
      Reservation block = pool->heap().reserve(1152);
      if (!block) break;
      all.push_back(block);
    }
    fitting = all.size();
    for (Reservation& block : all) pool->heap().cancel(block);
    ASSERT_TRUE(pool->close().ok());
  }
  const int status = in_child([&] {
    auto pool = must(reopen());
    if (!pool->root_recovered("links").ok()) _exit(1);
    auto* links = pool->at<Links>(pool->roots()[0].offset);
    for (std::size_t i = 0; i < linked + unlinked; ++i) {
      Reservation block = pool->heap().reserve(1152);
      std::memset(pool->at<std::byte>(block.offset), static_cast<int>(i), 1152);
      pm::persist(pool->at<std::byte>(block.offset), 1152);
      pool->heap().publish({&block, 1}, i < linked ? &links->word[i] : nullptr, block.offset);
    }
    std::vector<Reservation> unpublished;
    for (int i = 0; i < 20; ++i) unpublished.push_back(pool->heap().reserve(1152));
    kill(getpid(), SIGKILL);
  });
  ASSERT_TRUE(was_killed(status));

  const auto recover = [&] {
    auto pool = must(reopen());
    EXPECT_FALSE(pool->was_clean());
    EXPECT_FALSE(pool->ready());
    const auto* links = pool->at<Links>(pool->roots()[0].offset);
    for (std::size_t i = 0; i < linked; ++i) {
      const std::uint64_t offset = links->word[i].load();
      EXPECT_TRUE(pool->heap().mark(offset, 1152)) << i;
      EXPECT_TRUE(pool->heap().is_marked(offset));
      EXPECT_EQ(pool->at<std::uint8_t>(offset)[1151], static_cast<std::uint8_t>(i));
    }
    EXPECT_TRUE(pool->root_recovered("links").ok());
    EXPECT_TRUE(pool->ready());
    EXPECT_EQ(pool->heap().usage().live_blocks, linked + 1);
    return pool;
  };
  EXPECT_EQ(recover()->leaked_blocks_freed(), GetParam() == HeapKind::pmdk ? unlinked : 0);
  const auto pool = recover();
  EXPECT_EQ(pool->leaked_blocks_freed(), 0U) << "freed for good";
  std::uint64_t more = 0;
  while (pool->heap().reserve(1152)) ++more;
  EXPECT_GE(more + linked, fitting - fitting / 50);
}

TEST_P(PersistentHeapTest, RecoveryKeepsMarkedBlocksAndHandsOutOnlyOthers) {
  std::map<std::uint64_t, std::size_t> kept;
  std::uint64_t reserved = 0;
  {
    auto pool = create();
    Links* links = add_links(*pool);
    for (std::size_t i = 0; i < Links::count; ++i) {
      Reservation block = pool->heap().reserve(i % 2 == 0 ? 256 : 1152);
      pool->heap().publish({&block, 1}, &links->word[i], block.offset);
    }
    for (std::size_t i = 0; i < Links::count; i += 3) {  // holes
      const std::uint64_t offset = links->word[i].exchange(0);
      pm::persist(&links->word[i], 8);
      pool->heap().free(offset, i % 2 == 0 ? 256 : 1152);
    }
    reserved = pool->heap().usage().live_bytes;
    if (GetParam() == HeapKind::pmdk) reserved += 3 << 20;  // lanes
    ASSERT_TRUE(pool->close().ok());
  }
  const auto pool = must(reopen());
  EXPECT_TRUE(pool->was_clean());
  auto* links = pool->at<Links>(pool->roots()[0].offset);
  std::vector<std::jthread> markers;
  for (unsigned t = 0; t < 4; ++t)
    markers.emplace_back([&, t] {
      for (std::size_t i = t; i < Links::count; i += 4) {
        const std::uint64_t offset = links->word[i].load();
        EXPECT_TRUE(offset == 0 || pool->heap().mark(offset, i % 2 == 0 ? 256 : 1152));
      }
    });
  markers.clear();
  for (std::size_t i = 0; i < Links::count; ++i)
    if (const std::uint64_t offset = links->word[i].load(); offset != 0)
      kept[offset] = i % 2 == 0 ? 256 : 1152;
  ASSERT_TRUE(pool->root_recovered("links").ok());
  EXPECT_EQ(pool->leaked_blocks_freed(), 0U);
  EXPECT_EQ(pool->heap().usage().live_blocks, kept.size() + 1);
  EXPECT_GE(pool->heap().usage().reserved_bytes, reserved) << "known before the first allocation";
  for (Reservation block = pool->heap().reserve(256); block; block = pool->heap().reserve(256))
    ASSERT_FALSE(kept.contains(block.offset));
  for (const auto& [offset, bytes] : kept) pool->heap().free(offset, bytes);
}

TEST_P(PersistentHeapTest, WrongMarksAreRefused) {
  std::uint64_t block_offset = 0;
  {
    const auto pool = create();
    Links* links = add_links(*pool);
    Reservation block = pool->heap().reserve(1152);
    pool->heap().publish({&block, 1}, &links->word[0], block.offset);
    block_offset = block.offset;
    ASSERT_TRUE(pool->close().ok());
  }
  const auto pool = must(reopen());
  Heap& heap = pool->heap();
  EXPECT_FALSE(heap.mark(0, 64));
  EXPECT_FALSE(heap.mark(64, 64));
  EXPECT_FALSE(heap.mark(pool->bytes(), 64));
  EXPECT_FALSE(heap.mark(pool->bytes() - 64, Heap::max_block_bytes));
  EXPECT_FALSE(heap.mark(~std::uint64_t{0} - 63, 64));
  EXPECT_FALSE(heap.mark(block_offset, 0));
  EXPECT_FALSE(heap.mark(block_offset, Heap::max_block_bytes + 1));
  EXPECT_FALSE(heap.mark(block_offset + 8, 1152));
  EXPECT_FALSE(heap.mark(pool->roots()[0].offset, sizeof(Links))) << "the pool marks root blocks";
  EXPECT_FALSE(heap.is_marked(block_offset));
  EXPECT_TRUE(heap.mark(block_offset, 1152));
  EXPECT_TRUE(heap.is_marked(block_offset));
  EXPECT_FALSE(heap.mark(block_offset, 1152)) << "marked twice";
  EXPECT_TRUE(pool->root_recovered("links").ok());
}

TEST_P(PersistentHeapTest, AMarkOfAnotherSizeIsCorruptionAtTheLatestInTheSweep) {
  std::uint64_t block_offset = 0;
  {
    const auto pool = create();
    Links* links = add_links(*pool);
    Reservation block = pool->heap().reserve(256);
    Reservation next = pool->heap().reserve(256);
    Reservation both[] = {block, next};
    pool->heap().publish(both, &links->word[0], block.offset);
    block_offset = block.offset;
    ASSERT_TRUE(pool->close().ok());
  }
  const auto pool = must(reopen());
  const bool both_marked =
      pool->heap().mark(block_offset, 256) && pool->heap().mark(block_offset + 256, 512);
  EXPECT_FALSE(both_marked && pool->root_recovered("links").ok());
}

// S6, S7: beyond the mark it serves at once, below only after the sweep; and the mark follows.
TEST(HighWater, KeepsWhatWasHandedOutApartUntilTheSweep) {
  constexpr std::size_t bytes = 64;
  constexpr std::uint64_t end = 4096 + 64 * SlabHeap::chunk_bytes;
  std::atomic<std::uint64_t> word{0};
  std::vector<std::uint64_t> kept;
  std::vector<std::uint64_t> lost;
  {
    SlabHeap heap(4096, end);
    ASSERT_TRUE(heap.sweep().ok());
    ASSERT_TRUE(heap.keep_high_water(word));
    for (unsigned i = 0; i < 3000; ++i)
      (i % 2 == 0 ? kept : lost).push_back(heap.reserve(bytes).offset);
  }
  SlabHeap heap(4096, end);
  ASSERT_TRUE(heap.mark(kept[0], bytes));
  ASSERT_TRUE(heap.serve_above(word).value());
  const std::uint64_t last = std::max(*std::ranges::max_element(kept), lost.back());
  std::vector<std::uint64_t> fresh;
  const std::uint64_t before = word;
  while (const Reservation block = heap.reserve(bytes)) {
    ASSERT_GT(block.offset, last);
    fresh.push_back(block.offset);
  }
  EXPECT_NE(word, before) << "the mark rises with what is handed out";
  for (std::size_t i = 1; i < kept.size(); ++i) ASSERT_TRUE(heap.mark(kept[i], bytes));
  EXPECT_FALSE(heap.mark(kept[1], bytes)) << "twice";
  EXPECT_FALSE(heap.mark(fresh[0], bytes)) << "beyond the mark nothing can have been reached";
  EXPECT_EQ(heap.usage().live_blocks, kept.size() + fresh.size());
  for (std::size_t i = 0; i < 100; ++i) heap.free(kept[i], bytes);
  EXPECT_FALSE(heap.reserve(bytes)) << "freed below the mark, before the sweep";
  EXPECT_EQ(heap.usage().live_blocks, kept.size() + fresh.size() - 100);
  ASSERT_TRUE(heap.sweep().ok());
  EXPECT_EQ(heap.usage().live_blocks, kept.size() + fresh.size() - 100);
  std::map<std::uint64_t, int> taken;
  for (const std::uint64_t block : fresh) ++taken[block];
  for (std::size_t i = 100; i < kept.size(); ++i) ++taken[kept[i]];
  while (const Reservation block = heap.reserve(bytes)) ASSERT_EQ(++taken[block.offset], 1);
  EXPECT_EQ(taken.size(), end / bytes - 64);
  for (const auto& [block, times] : taken) heap.free(block, bytes);
  EXPECT_EQ(heap.usage().live_blocks, 0U);
  EXPECT_TRUE(heap.reserve(std::size_t{1} << 20)) << "empty spans are chunks again";
}

TEST(HighWater, DamagedMarksAreCorrupt) {
  std::atomic<std::uint64_t> word{0};
  constexpr std::uint64_t end = 4096 + 64 * SlabHeap::chunk_bytes;
  SlabHeap first(4096, end);
  ASSERT_TRUE(first.sweep().ok());
  ASSERT_TRUE(first.keep_high_water(word));
  const std::uint64_t good = word;
  for (unsigned bit = 0; bit < 64; ++bit) {
    word = good ^ std::uint64_t{1} << bit;
    SlabHeap heap(4096, end);
    const Result<bool> serves = heap.serve_above(word);
    ASSERT_FALSE(serves.ok()) << bit;
    EXPECT_EQ(serves.error().code, ErrorCode::corrupt);
  }
  word = good;
  SlabHeap heap(4096, end);
  ASSERT_TRUE(heap.mark(4096 + 32 * SlabHeap::chunk_bytes, 64));
  EXPECT_FALSE(heap.serve_above(word).ok()) << "a root beyond the mark";
}

// A sweep beside threads that reserve and free.
TEST(HighWater, TheSweepRunsBesideOthers) {
  constexpr std::size_t bytes = 64;
  constexpr std::uint64_t end = 4096 + 256 * SlabHeap::chunk_bytes;
  for (unsigned round = 0; round < 20; ++round) {
    std::atomic<std::uint64_t> word{0};
    std::vector<std::uint64_t> old;
    {
      SlabHeap heap(4096, end);
      ASSERT_TRUE(heap.sweep().ok());
      ASSERT_TRUE(heap.keep_high_water(word));
      for (unsigned i = 0; i < 20'000; ++i) old.push_back(heap.reserve(bytes).offset);
    }
    SlabHeap heap(4096, end);
    ASSERT_TRUE(heap.serve_above(word).value());
    for (const std::uint64_t block : old) ASSERT_TRUE(heap.mark(block, bytes));
    std::vector<std::thread> team;
    std::atomic<std::size_t> started{0};
    for (unsigned t = 0; t < 2; ++t)
      team.emplace_back([&, t] {
        ++started;
        for (std::size_t i = t; i < old.size(); i += 2) {
          heap.free(old[i], bytes);
          if (Reservation block = heap.reserve(bytes); block && i % 8 < 4) heap.cancel(block);
        }
      });
    while (started < 2) std::this_thread::yield();
    ASSERT_TRUE(heap.sweep().ok());
    for (std::thread& thread : team) thread.join();
    EXPECT_EQ(heap.usage().live_blocks, old.size() / 2);
  }
}

TEST_P(HeapTest, EpochsReturnRetiredBlocks) {
  const auto pool = create();
  Epochs epochs;
  const std::uint64_t before = pool->heap().usage().live_blocks;
  for (int i = 0; i < 1000; ++i) {
    const Epochs::Guard guard(epochs);
    Reservation block = pool->heap().reserve(256);
    ASSERT_TRUE(block);
    pool->heap().publish({&block, 1}, nullptr, 0);
    epochs.retire(pool->heap(), block.offset, 256);
  }
  EXPECT_LT(pool->heap().usage().live_blocks, before + 1000);
  epochs.drain();
  EXPECT_EQ(pool->heap().usage().live_blocks, before);
}

}  // namespace
}  // namespace perdure
