// Pools that are as they should be: creation, reopening, roots, the recovery protocol.
#include "pool/pool.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "pm/pm.h"
#include "pool/header.h"
#include "pool/test_support.h"

namespace perdure {
namespace {

class PoolTest : public testing::TestWithParam<HeapKind> {
 protected:
  PoolTest() { pm::configure(pm::Durability::adr); }
  [[nodiscard]] PoolOptions options() const { return small_pool(folder_.file(), GetParam()); }

  TestFolder folder_;
};

class FilePoolTest : public PoolTest {};

INSTANTIATE_TEST_SUITE_P(Heaps, PoolTest,
                         testing::Values(HeapKind::pmdk, HeapKind::slab, HeapKind::dram),
                         heap_name);
INSTANTIATE_TEST_SUITE_P(Heaps, FilePoolTest, testing::Values(HeapKind::pmdk, HeapKind::slab),
                         heap_name);

Reservation text_block(Pool& pool, const char* text) {
  Reservation block = pool.heap().reserve(64);
  EXPECT_TRUE(block);
  std::strncpy(pool.at<char>(block.offset), text, 64);
  pm::persist(pool.at<char>(block.offset), 64);
  return block;
}

TEST_P(PoolTest, ANewPoolIsReadyEmptyAndDescribesItself) {
  const auto pool = must(Pool::create(options()));
  EXPECT_TRUE(pool->ready());
  EXPECT_TRUE(pool->was_clean());
  EXPECT_TRUE(pool->roots().empty());
  EXPECT_EQ(pool->bytes(), Pool::min_pool_bytes);
  EXPECT_EQ(pool->heap_kind(), GetParam());
  EXPECT_STREQ(pool->heap().name(), GetParam() == HeapKind::pmdk ? "pmdk" : "slab");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool->base()) % (2 << 20), 0U);
  EXPECT_EQ(pool->uuid().size(), 36U);
  EXPECT_FALSE(pool->contains(0, 8));
  EXPECT_FALSE(pool->contains(pool->bytes() - 8, 16));
  EXPECT_FALSE(pool->contains(~std::uint64_t{7}, 16));
  EXPECT_TRUE(pool->contains(pool->bytes() - 8, 8));
}

TEST_P(PoolTest, MediumIsWhatTheFileLivesOn) {
  const auto pool = must(Pool::create(options()));
  const bool tmpfs = folder_.path().starts_with("/dev/shm");
  EXPECT_EQ(pool->medium(), GetParam() == HeapKind::dram ? Medium::anonymous
                            : tmpfs                      ? Medium::tmpfs
                                                         : Medium::page_cache);
}

TEST_P(PoolTest, TooSmallAPoolIsAUsageError) {
  PoolOptions small = options();
  small.bytes = Pool::min_pool_bytes - 1;
  EXPECT_EQ(Pool::create(small).error().code, ErrorCode::usage);
  EXPECT_EQ(folder_.entries(), 0U);
}

TEST_P(PoolTest, HugePagesComeWhereTheSystemGivesThem) {
  PoolOptions huge = options();
  huge.bytes = 32 << 20;
  huge.huge_pages = true;
  huge.prefault = true;
  const auto pool = must(Pool::create(huge));
  EXPECT_LE(pool->huge_page_bytes(), pool->bytes());
  std::string mode;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), mode);
  const bool granted =
      mode.find("[madvise]") != std::string::npos || mode.find("[always]") != std::string::npos;
  if (GetParam() == HeapKind::dram && granted) {
    EXPECT_GE(pool->huge_page_bytes(), pool->bytes() / 2);
  }
}

// P1: the identity of a pool stays; P2: roots come back whole.
TEST_P(FilePoolTest, RootsAndContentSurviveReopeningAtAnotherAddress) {
  std::string uuid;
  std::byte* first_base = nullptr;
  {
    auto pool = must(Pool::create(options()));
    Reservation a = text_block(*pool, "first");
    Reservation b = text_block(*pool, "second");
    ASSERT_TRUE(pool->add_root("a", a).ok());
    ASSERT_TRUE(pool->add_root(std::string(31, 'b'), b).ok());
    uuid = pool->uuid();
    first_base = pool->base();
    ASSERT_TRUE(pool->close().ok());
  }
  // Occupies the old place, so that no heap can map there again.
  void* blocker = mmap(first_base, Pool::min_pool_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  const auto pool = must(Pool::open(options()));
  EXPECT_NE(pool->base(), first_base);
  EXPECT_TRUE(pool->was_clean());
  EXPECT_EQ(pool->uuid(), uuid);
  EXPECT_EQ(pool->heap_kind(), GetParam());
  const auto roots = pool->roots();
  ASSERT_EQ(roots.size(), 2U);
  EXPECT_EQ(roots[0].name, "a");
  EXPECT_EQ(roots[0].bytes, 64U);
  EXPECT_STREQ(pool->at<char>(roots[0].offset), "first");
  EXPECT_EQ(roots[1].name, std::string(31, 'b'));
  EXPECT_STREQ(pool->at<char>(roots[1].offset), "second");
  if (blocker != MAP_FAILED) munmap(blocker, Pool::min_pool_bytes);
}

TEST(SlabPool, MapsAtTheGivenAddress) {
  const TestFolder folder;
  PoolOptions options = small_pool(folder.file());
  options.map_address = 0x7e9000000000;
  for (const std::uint64_t shift : {0U, 1U << 30, (1U << 30) + 4096}) {
    options.overwrite = true;
    options.map_address += shift;
    const auto pool = must(Pool::create(options));
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(pool->base()), options.map_address);
  }
}

TEST(SlabPool, AFailedCreationLeavesNothingBehind) {
  const TestFolder folder;
  PoolOptions options = small_pool(folder.file());
  void* taken = mmap(nullptr, Pool::min_pool_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  options.map_address = reinterpret_cast<std::uint64_t>(taken);
  EXPECT_EQ(Pool::create(options).error().code, ErrorCode::io);
  EXPECT_EQ(folder.entries(), 0U);
  munmap(taken, Pool::min_pool_bytes);
}

TEST_P(FilePoolTest, RecoveryWaitsForEveryRoot) {
  {
    auto pool = must(Pool::create(options()));
    for (const char* name : {"a", "b"}) {
      Reservation block = text_block(*pool, name);
      ASSERT_TRUE(pool->add_root(name, block).ok());
    }
    ASSERT_TRUE(pool->root_recovered("a").ok());
    EXPECT_TRUE(pool->ready());
  }
  auto pool = must(Pool::open(options()));
  EXPECT_FALSE(pool->was_clean()) << "the last session did not close";
  EXPECT_FALSE(pool->ready());
  EXPECT_EQ(pool->root_recovered("c").error().code, ErrorCode::not_found);
  EXPECT_TRUE(pool->root_recovered("b").ok());
  EXPECT_FALSE(pool->ready());
  Reservation fake;
  fake.offset = 4096;
  fake.bytes = 64;
  EXPECT_EQ(pool->add_root("c", fake).error().code, ErrorCode::usage);
  EXPECT_TRUE(pool->root_recovered("a").ok());
  EXPECT_TRUE(pool->ready());
  EXPECT_EQ(pool->heap().usage().live_blocks, 2U);
  Reservation block = text_block(*pool, "c");
  EXPECT_TRUE(pool->add_root("c", block).ok());
  EXPECT_EQ(pool->roots().size(), 3U);
}

TEST_P(FilePoolTest, ClosingDuringRecoveryDoesNotClaimACleanPool) {
  {
    auto pool = must(Pool::create(options()));
    Reservation block = text_block(*pool, "a");
    ASSERT_TRUE(pool->add_root("a", block).ok());
  }
  ASSERT_TRUE(must(Pool::open(options()))->close().ok());
  auto pool = must(Pool::open(options()));
  EXPECT_FALSE(pool->was_clean());
  ASSERT_TRUE(pool->root_recovered("a").ok());
  ASSERT_TRUE(pool->close().ok());
  EXPECT_TRUE(must(Pool::open(options()))->was_clean());
}

TEST_P(PoolTest, BadAndDoubleRootNamesAreRefused) {
  const auto pool = must(Pool::create(options()));
  Reservation block = text_block(*pool, "a");
  ASSERT_TRUE(pool->add_root("a", block).ok());
  Reservation other = text_block(*pool, "b");
  EXPECT_EQ(pool->add_root("a", other).error().code, ErrorCode::exists);
  EXPECT_EQ(pool->add_root("", other).error().code, ErrorCode::usage);
  EXPECT_EQ(pool->add_root(std::string(32, 'x'), other).error().code, ErrorCode::usage);
  EXPECT_EQ(pool->add_root(std::string_view("a\0b", 3), other).error().code, ErrorCode::usage);
  EXPECT_EQ(pool->roots().size(), 1U);
  EXPECT_TRUE(pool->add_root("b", other).ok()) << "a refused reservation is still good";
}

TEST_P(PoolTest, AFullTableOfRootsIsAnError) {
  const auto pool = must(Pool::create(options()));
  for (unsigned i = 0; i < Pool::max_roots; ++i) {
    Reservation block = text_block(*pool, "x");
    ASSERT_TRUE(pool->add_root("root" + std::to_string(i), block).ok());
  }
  Reservation block = text_block(*pool, "x");
  EXPECT_EQ(pool->add_root("one more", block).error().code, ErrorCode::out_of_space);
  pool->heap().cancel(block);
  EXPECT_EQ(pool->roots().size(), Pool::max_roots);
}

// P2: as a crash may leave it, an entry without its commit word does not exist and is used again.
TEST(SlabPool, ARootWithoutItsCommitWordDoesNotExist) {
  const TestFolder folder;
  {
    auto pool = must(Pool::create(small_pool(folder.file())));
    for (const char* name : {"a", "b"}) {
      Reservation block = text_block(*pool, name);
      ASSERT_TRUE(pool->add_root(name, block).ok());
    }
    pool->at<PoolHeader>(0)->root[1].commit = 0;
  }
  const auto pool = must(Pool::open(small_pool(folder.file())));
  ASSERT_EQ(pool->roots().size(), 1U);
  ASSERT_TRUE(pool->root_recovered("a").ok());
  Reservation block = text_block(*pool, "b");
  EXPECT_TRUE(pool->add_root("b", block).ok());
  EXPECT_EQ(pool->roots().size(), 2U);
}

TEST_P(FilePoolTest, AnExistingFileIsKeptUnlessOverwritingIsAskedFor) {
  {
    auto pool = must(Pool::create(options()));
    Reservation block = text_block(*pool, "a");
    ASSERT_TRUE(pool->add_root("a", block).ok());
    ASSERT_TRUE(pool->close().ok());
  }
  EXPECT_EQ(Pool::create(options()).error().code, ErrorCode::exists);
  EXPECT_EQ(must(Pool::open(options()))->roots().size(), 1U);
  PoolOptions overwrite = options();
  overwrite.overwrite = true;
  EXPECT_TRUE(must(Pool::create(overwrite))->roots().empty());
  EXPECT_TRUE(must(Pool::open(options()))->roots().empty());
  EXPECT_EQ(folder_.entries(), 1U);
}

// P3, within one process and between two.
TEST_P(FilePoolTest, APoolInUseIsBusyForEveryoneElse) {
  PoolOptions overwrite = options();
  overwrite.overwrite = true;
  {
    const auto pool = must(Pool::create(options()));
    EXPECT_EQ(Pool::open(options()).error().code, ErrorCode::busy);
    EXPECT_EQ(Pool::create(overwrite).error().code, ErrorCode::busy);
    EXPECT_EQ(WEXITSTATUS(in_child([&] {
                const auto opened = Pool::open(options());
                _exit(!opened.ok() && opened.error().code == ErrorCode::busy ? 7 : 1);
              })),
              7);
  }
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto pool = must(Pool::open(options()));
    static_cast<void>(!write(ready[1], "x", 1));
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(Pool::open(options()).error().code, ErrorCode::busy);
  EXPECT_EQ(Pool::create(overwrite).error().code, ErrorCode::busy);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(Pool::open(options()).ok()) << "the lock dies with the process";
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace perdure
